"""Guesses how long points take before they are built: an analytic model, corrected by what was timed."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kernelwright.core.plan import ParamValue

RIDGE = 1.0
"""How many timed points a coefficient of zero is worth; ours."""
Known = tuple[Mapping[str, ParamValue], float | None, float]
"""Values of a point, its time by the model over the default's (None: there is none), and as it was timed."""


class Guess:
    """Ridge regression of what the model misses, on its logarithm and on the values that are chosen."""

    def __init__(self, known: Sequence[Known], defaults: Mapping[str, ParamValue] | None = None) -> None:
        """Learn from points that were timed; without any, the model alone is believed."""
        self._defaults = dict(defaults or {})
        self._columns: dict[tuple[str, ParamValue], int] = {}
        for values, _, _ in known:
            for pair in self._chosen(values):
                self._columns.setdefault(pair, len(self._columns) + 1)
        self._weights = np.zeros(len(self._columns) + 1)
        if known:
            rows = np.array([self._row(values, model) for values, model, _ in known])
            missed = np.array([math.log(ratio) - _log(model) for _, model, ratio in known])
            square = rows.T @ rows + RIDGE * np.eye(rows.shape[1])
            self._weights = np.linalg.solve(square, rows.T @ missed)

    def ratio(self, values: Mapping[str, ParamValue], model: float | None) -> float:
        """Return the guessed time over the default's."""
        return math.exp(_log(model) + float(self._row(values, model) @ self._weights))

    def _row(self, values: Mapping[str, ParamValue], model: float | None) -> "np.ndarray":
        row = np.zeros(len(self._columns) + 1)
        row[0] = _log(model)
        for pair in self._chosen(values):
            if pair in self._columns:
                row[self._columns[pair]] = 1.0
        return row

    def _chosen(self, values: Mapping[str, ParamValue]) -> list[tuple[str, ParamValue]]:
        return [(n, v) for n, v in values.items() if n not in self._defaults or v != self._defaults[n]]


def _log(model: float | None) -> float:
    return 0.0 if model is None else math.log(max(model, 1e-9))
