"""One source against another, line by line."""

import difflib
import re
from collections.abc import Mapping
from itertools import islice
from typing import Literal

from kernelwright.core.candidate import Candidate
from kernelwright.core.frozen import Frozen
from kernelwright.core.visible import visible_lines

MAX_LINES = 4000
"""Of a source that is compared; to compare longer ones may take minutes. Ours."""
CONTEXT = 3
"""Unchanged lines shown around a change."""


class DiffLine(Frozen):
    """One line of a comparison of two sources."""

    kind: Literal["same", "added", "removed", "place"]
    text: str


class SourceDiff(Frozen):
    """A candidate's source against another source."""

    title: str
    lines: tuple[DiffLine, ...] | None
    """Empty: the sources are the same; None: one is too long to be compared."""


def changes(candidate: Candidate, run: Mapping[str, Candidate], reference: str) -> list[SourceDiff]:
    """Return the candidate against its parents in its run, its first ancestor there, and the reference."""
    parents = [run[parent] for parent in candidate.parents if parent in run]
    found = [compare(f"Against its parent {one.id}", one.source, candidate.source) for one in parents]
    first = _first(candidate, run)
    if first.id not in {candidate.id, *candidate.parents}:
        title = f"Against the starting candidate {first.id} that it descends from"
        found.append(compare(title, first.source, candidate.source))
    return [*found, _against(reference, candidate.source)]


def _against(reference: str, source: str) -> SourceDiff:
    """Compare the classes alone where both are found: imports, utilities and kernels have no counterpart."""
    old, new = _class(reference, "Model"), _class(source, "ModelNew")
    if not old or not new:
        return compare("Against the reference", reference, source)
    return compare("Against the reference, the module's class alone: kernels are in the source", old, new)


def _class(source: str, name: str) -> str:
    """Return the text of a class at top level; empty where there is none."""
    found = re.search(rf"^class {name}\b.*?(?=^[^\s)#]|\Z)", source, re.MULTILINE | re.DOTALL)
    return found[0].rstrip() if found else ""


def _first(candidate: Candidate, run: Mapping[str, Candidate]) -> Candidate:
    """Return the oldest ancestor by first parents that the run knows."""
    seen: set[str] = set()
    while candidate.id not in seen and candidate.parents and candidate.parents[0] in run:
        seen.add(candidate.id)
        candidate = run[candidate.parents[0]]
    return candidate


def compare(title: str, old: str, new: str) -> SourceDiff:
    """Return what changed from the old source to the new one; hidden characters are named."""
    before, after = visible_lines(old).split("\n"), visible_lines(new).split("\n")
    if max(len(before), len(after)) > MAX_LINES:
        return SourceDiff(title=title, lines=None)
    lines = difflib.unified_diff(before, after, lineterm="", n=CONTEXT)
    told = tuple(_line(line) for line in islice(lines, 2, None))  # after the names of the files
    return SourceDiff(title=title, lines=told)


def _line(line: str) -> DiffLine:
    if line.startswith("@@"):
        return DiffLine(kind="place", text=line)
    kinds: dict[str, Literal["same", "added", "removed"]] = {"+": "added", "-": "removed", " ": "same"}
    return DiffLine(kind=kinds[line[0]], text=line[1:])
