"""An evaluator that measures once more what was measured while the machine was disturbed."""

import math
from collections.abc import Mapping

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import DRIFT, EAGER_DRIFT, Evaluation
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import Evaluator, Session, SessionAround

AGAIN = "the machine was disturbed: measured twice, and the quieter measurement is kept"


class Steady:
    """Asks another evaluator a second time where an interval says next to nothing, or eager was slow."""

    def __init__(self, inner: Evaluator) -> None:
        self._inner = inner

    def open(self, task: Task) -> "SteadySession":
        """See Evaluator."""
        return SteadySession(self._inner.open(task))


class SteadySession(SessionAround):
    """See Session. Finals are as they come: they have several processes and an interval over them."""

    def __init__(self, inner: Session) -> None:
        super().__init__(inner)
        self._least_ms: dict[str, float] = {}
        """Eager's, by workload."""

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the verdict on a candidate; a failure in either measurement is one."""
        first = self._inner.evaluate(candidate, final=final, floors=floors or {}, baselines=baselines)
        if final:
            return first
        is_slow = not self._least_ms and self._is_slow(first)
        first = self._marked(first)
        if not (first.is_disturbed or is_slow):
            return first
        second = self._inner.evaluate(candidate, final=final, floors=floors or {}, baselines=baselines)
        if not second.is_verified:
            return second
        quieter = self._marked(second)
        found = (self._marked(first), quieter)  # the second may show that the first was disturbed
        kept = min(found, key=lambda one: (one.is_disturbed, one.interval_width or 0.0))
        return kept.model_copy(update={"notes": (*kept.notes, AGAIN)})

    def _is_slow(self, found: Evaluation) -> bool:
        """Tell whether eager took much longer than before the search: the first one has nothing else.

        Eager was alone then, so this marks nothing.
        """
        before = self.baseline_ms
        return any(
            eager.median_ms > DRIFT * before.get(result.workload, math.inf)
            for result in found.results
            if (eager := result.baselines.get("eager")) is not None
        )

    def _marked(self, found: Evaluation) -> Evaluation:
        """Return an evaluation that says so where eager was much slower than before."""
        drift = 1.0
        for result in found.results:
            eager = result.baselines.get("eager")
            if eager is not None:
                least = min(self._least_ms.get(result.workload, eager.median_ms), eager.median_ms)
                self._least_ms[result.workload] = least
                drift = max(drift, eager.median_ms / max(least, 1e-9))
        if drift <= DRIFT:
            return found
        return found.model_copy(update={"facts": {**found.facts, EAGER_DRIFT: drift}})
