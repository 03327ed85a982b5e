"""The result of a workload: made from its pairs of processes, and checked when no worker is left."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.evaluation import WorkloadResult
from kernelwright.core.task import Workload
from kernelwright.referee.session.context import JudgingContext
from kernelwright.referee.session.dossier import Dossier
from kernelwright.referee.timing.statistics import Samples, conclude


def result_of(
    dossier: Dossier,
    workload: Workload,
    pairs: Sequence[Samples],
    *,
    spread: float = 0.0,
    is_alone: bool = False,
) -> WorkloadResult:
    """Return the result of pairs; what new values cost in most of those seen so far, they cost in all.

    One pair alone may miss this cost: other programs may have been at work beside it. ``is_alone``: the
    pairs were timed with one thread.
    """
    factor = statistics.median_low(dossier.factors[workload.name, is_alone] or [1.0])
    return conclude(workload.name, [pair.with_factor(factor) for pair in pairs], spread=spread)


@dataclass
class Conclusion:
    """The result of a workload, with the checks of results; no process of the candidate is left."""

    context: JudgingContext
    dossier: Dossier
    result: WorkloadResult

    def check_floor(self) -> None:
        """Check that the machine can be as fast as the measured latency of a workload."""
        floor = self.context.floors.get(self.result.workload)
        result = self.result = self.context.floor_check.check(self.result, floor)
        if result.floor_was_ms is not None:
            self.dossier.note(
                f"our error: by the peaks measured before, workload {result.workload} takes at least "
                f"{result.floor_was_ms:.4g} ms; measured again, {result.floor_ms:.4g} ms"
            )
