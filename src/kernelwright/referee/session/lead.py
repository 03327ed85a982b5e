"""Whose times a search goes by: the fastest candidate that its session has replayed."""

import statistics
from collections.abc import Sequence

from kernelwright.core.evaluation import WorkloadResult
from kernelwright.referee.timing.measure import EAGER
from kernelwright.referee.timing.statistics import Samples, compare

UNCHANGED = 1.0
"""Ratio of the module as it is, which leads until something is faster."""


class Lead:
    """How fast the fastest replayed candidate of a session is on each workload.

    Replay and new values show what a candidate gained by remembering results. One that gained nothing over
    the leader has no use for that, and a search does not spend the time. What it is later chosen for, a final
    judges anew, replay included.
    """

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def is_behind(self, workload: str, times: Samples) -> bool:
        """Tell whether a candidate with these times is no faster than the leader."""
        eager_ms = times.baselines.get(EAGER)
        if not eager_ms:
            return False
        ratio = compare(EAGER, eager_ms, times.candidate).ratio
        return ratio <= self._ratios.get(workload, UNCHANGED)

    def offer(self, results: Sequence[WorkloadResult]) -> None:
        """Let a verified candidate lead, if it is the fastest over all workloads."""
        speedups = {result.workload: result.speedup(EAGER) for result in results}
        ratios = {workload: found.ratio for workload, found in speedups.items() if found is not None}
        if len(ratios) < len(results) or not ratios:
            return
        leading = [self._ratios.get(workload, UNCHANGED) for workload in ratios]
        if statistics.geometric_mean(ratios.values()) > statistics.geometric_mean(leading):
            self._ratios = ratios
