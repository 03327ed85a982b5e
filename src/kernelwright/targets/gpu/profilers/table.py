"""Reads the tables that profilers write among other lines."""

import csv
import math
from collections.abc import Iterator, Sequence


def find_table(text: str, *columns: str) -> list[dict[str, str]] | None:
    """Return the rows below the first line that holds all these columns, None when no line does.

    Lines in front of it do not matter; the table ends at the first line that has not as many fields.
    """
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if not all(column in line for column in columns):
            continue
        header = next(_records([line]), [])
        if set(columns) <= set(header):
            return _rows(header, lines[place + 1 :])
    return None


def _rows(header: Sequence[str], lines: Sequence[str]) -> list[dict[str, str]]:
    found = []
    for fields in _records(lines):
        if len(fields) != len(header):
            break
        found.append(dict(zip(header, fields, strict=True)))
    return found


def _records(lines: Sequence[str]) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines)
    except csv.Error:  # a field without end, for one
        return


def number(text: str) -> float | None:
    """Return a number as tools print it, with or without commas between thousands; None for anything else."""
    try:
        value = float(text.replace(",", "").strip().removesuffix("%"))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
