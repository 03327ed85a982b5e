"""Values of points as numbers: what a distance between two points is, name by name."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kernelwright.core.plan import ParamValue

ABSENT = "(not decided)"
"""Of a name that a point does not decide and that has no default."""
Values = Mapping[str, ParamValue]


class Encoding:
    """Columns of numbers for the values of points.

    A name whose values are numbers, none below 0, is one column: their logarithm, from 0 to 1, so that what
    lies between two values is between them here. Any other name has a column for each value, so that every
    two values are 1 apart.
    """

    def __init__(self, points: Iterable[Values], defaults: Values) -> None:
        """Take in every value that occurs; a point that does not name a parameter has its default."""
        self._defaults = dict(defaults)
        seen: dict[str, dict[ParamValue, None]] = {name: {value: None} for name, value in defaults.items()}
        for point in points:
            for name, value in point.items():
                own: dict[ParamValue, None] = {} if name in defaults else {ABSENT: None}
                seen.setdefault(name, own)[value] = None
        decided = {name: list(values) for name, values in sorted(seen.items()) if len(values) > 1}
        self.names = tuple(decided)
        """Those with more than one value."""
        self._columns: list[tuple[str, tuple[float, float] | list[ParamValue]]] = [
            (name, _range(values) or values) for name, values in decided.items()
        ]
        self._slices: dict[str, slice] = {}
        place = 0
        for name, kind in self._columns:
            width = 1 if isinstance(kind, tuple) else len(kind)
            self._slices[name] = slice(place, place + width)
            place += width
        self._width = place

    def columns(self, name: str) -> slice:
        """Return the columns of a name."""
        return self._slices[name]

    def rows(self, points: Sequence[Values]) -> "np.ndarray":
        """Return a row for each point; a value that was never seen is as far from each as they are apart."""
        found = np.zeros((len(points), self._width))
        for row, point in zip(found, points, strict=True):
            for name, kind in self._columns:
                value = point.get(name, self._defaults.get(name, ABSENT))
                place = self._slices[name].start
                if isinstance(kind, tuple):
                    row[place] = (_log(value) - kind[0]) / (kind[1] - kind[0])
                elif value in kind:
                    row[place + kind.index(value)] = math.sqrt(0.5)
        return found


def _range(values: Sequence[ParamValue]) -> tuple[float, float] | None:
    """Return both ends of the logarithms, None where not all values are numbers that have one."""
    if len(values) < 3 or not all(_is_number(value) for value in values):
        return None
    logs = [_log(value) for value in values]
    return min(logs), max(logs)


def _is_number(value: ParamValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _log(value: ParamValue) -> float:
    return math.log1p(float(value)) if _is_number(value) else 0.0
