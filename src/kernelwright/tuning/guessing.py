"""Guesses how long points take before they are built: an analytic model, corrected by what was timed.

What other machines, or earlier runs, measured of the same parameters enters as further machines of the
process: how much of it holds here is fitted to all measurements, so a machine that behaves otherwise is
believed less.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kernelwright.core.plan import ParamValue
from kernelwright.memory.tuned import EarlierTuning, most_telling
from kernelwright.tuning.encoding import Encoding
from kernelwright.tuning.process import Process, Rows, Shape

Values = Mapping[str, ParamValue]
Known = tuple[Values, float | None, float]
"""Values of a point, its time by the model over the default's (None: there is none), and as it was timed."""

CLIP = math.log(6.0)
"""Points that are slower than the best by more than this are taken for equally slow. Ours: what matters is
the shape near the best, and one point that is a hundred times slower would hide it."""
MOST_OWN, MOST_EARLIER = 300, 240
"""Points of this tuning and of all earlier ones that are learned from at most: a fit costs their cube."""
ENOUGH, USUAL_SPREAD = 8, 0.5
"""Own points from which their standard deviation is known, and what it is taken for before."""


class Guess:
    """What is known of all points after some were timed."""

    def __init__(
        self,
        known: Sequence[Known],
        defaults: Values | None = None,
        earlier: Sequence[EarlierTuning] = (),
        shape: Shape | None = None,
    ) -> None:
        """Learn from points that were timed; without any, the model alone is believed.

        ``shape`` is where the fit begins, and is changed to where it ends.
        """
        known = list(known)[-MOST_OWN:]
        others = [most_telling(one, MOST_EARLIER // len(earlier)) for one in earlier]
        points = [*(values for values, _, _ in known), *(values for one in others for values, _ in one)]
        self._encoding = Encoding(points, defaults or {})
        logs = _clipped([math.log(ratio) for _, _, ratio in known])
        self._best = min(logs, default=0.0)
        model = np.zeros(len(points))
        model[: len(known)] = [_log(modelled) for _, modelled, _ in known]
        spread = float(np.std(logs)) if len(logs) >= ENOUGH else USUAL_SPREAD
        theirs = [log for one in others for log in _rescaled([log for _, log in one], spread)]
        machine = [0] * len(known) + [number for number, one in enumerate(others, 1) for _ in one]
        rows = Rows(self._encoding.rows(points), model, np.array(machine, dtype=int))
        self._process = Process(self._encoding, rows, np.array([*logs, *theirs]) - model, shape or Shape())

    def ratio(self, values: Values, model: float | None) -> float:
        """Return the guessed time over the default's."""
        return math.exp(float(self._process.predict(self._rows([values], [model])).mean[0]))

    def choose(self, pool: Sequence[Values], models: Sequence[float | None], count: int) -> list[int]:
        """Return the numbers of the points to try next, the most promising first."""
        if not pool:
            return []
        return self._process.predict(self._rows(pool, models)).promising(self._best, count)

    def _rows(self, points: Sequence[Values], models: Sequence[float | None]) -> Rows:
        logs = np.array([_log(model) for model in models])
        return Rows(self._encoding.rows(points), logs, np.zeros(len(points), dtype=int))


def _rescaled(logs: Sequence[float], spread: float) -> list[float]:
    """Return logarithms that spread as those here do: a machine may answer the same choices more strongly."""
    clipped = np.array(_clipped(logs))
    return list((clipped - clipped.mean()) * (spread / max(float(clipped.std()), 1e-6)))


def _clipped(logs: Sequence[float]) -> list[float]:
    most = min(logs, default=0.0) + CLIP
    return [min(log, most) for log in logs]


def _log(model: float | None) -> float:
    return 0.0 if model is None else math.log(max(model, 1e-9))
