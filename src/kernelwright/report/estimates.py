"""Middle values over tasks with their bootstrap intervals; the tasks are what is drawn at random."""

import math
from collections.abc import Sequence
from typing import Literal

from kernelwright.core.frozen import Frozen
from kernelwright.report.measures import times
from kernelwright.report.tables import RESAMPLES


class Estimate(Frozen):
    """A ratio with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{times(self.value)} [{self.low:.2f}, {self.high:.2f}]"


def estimate(
    logs: Sequence[float], middle: Literal["mean", "median"] = "mean", *, seed: int = 0
) -> Estimate | None:
    """Return geomean or median of ratios from their logarithms; None for none.

    One figure per task: several seeds of a task are averaged before, so that they are drawn together.
    The percentile interval of RESAMPLES resamples is reproducible.
    """
    if not logs:
        return None
    # lazy: keeps --help quick
    import numpy as np

    values = np.asarray(logs, dtype=float)
    picks = np.random.default_rng(seed).integers(0, len(values), size=(RESAMPLES, len(values)))
    drawn = values[picks]
    spread = drawn.mean(axis=1) if middle == "mean" else np.median(drawn, axis=1)
    centre = values.mean() if middle == "mean" else np.median(values)
    low, high = np.percentile(spread, [2.5, 97.5])
    return Estimate(value=math.exp(centre), low=math.exp(low), high=math.exp(high))
