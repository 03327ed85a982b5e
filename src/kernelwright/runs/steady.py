"""An evaluator that measures once more what was measured while the machine was disturbed."""

from collections.abc import Mapping

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import Evaluator, Session, SessionAround

AGAIN = "the machine was disturbed: measured twice, and the narrower interval is kept"


class Steady:
    """Asks another evaluator a second time where an interval says next to nothing."""

    def __init__(self, inner: Evaluator) -> None:
        self._inner = inner

    def open(self, task: Task) -> "SteadySession":
        """See Evaluator."""
        return SteadySession(self._inner.open(task))


class SteadySession(SessionAround):
    """See Session. Finals are as they come: they have several processes and an interval over them."""

    def __init__(self, inner: Session) -> None:
        super().__init__(inner)

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
        if final or not first.is_disturbed:
            return first
        second = self._inner.evaluate(candidate, final=final, floors=floors or {}, baselines=baselines)
        if not second.is_verified:
            return second
        kept = min(first, second, key=lambda one: one.interval_width or 0.0)
        return kept.model_copy(update={"notes": (*kept.notes, AGAIN)})
