"""An evaluator that measures nothing twice: it uses verdicts of the search as final ones."""

from collections.abc import Mapping, Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import Evaluator, Session, SessionAround


class Quick:
    """Asks another evaluator for search verdicts alone; what it gives never says that it is final."""

    def __init__(self, inner: Evaluator) -> None:
        self._inner = inner

    def open(self, task: Task) -> "QuickSession":
        """See Evaluator."""
        return QuickSession(self._inner.open(task))


class QuickSession(SessionAround):
    """See Session. A final verdict is the search's own, measured once more only for baselines it lacks."""

    def __init__(self, inner: Session) -> None:
        super().__init__(inner)
        self._known: dict[str, Evaluation] = {}

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> None:
        """Measure nothing."""

    def compare(self, candidate: Candidate, base: Candidate, limit_s: float) -> None:
        """Measure nothing."""

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the verdict on a candidate."""
        known = self._known.get(candidate.id)
        if final and known is not None and set(baselines) <= {"eager"}:
            return known
        found = self._inner.evaluate(candidate, floors=floors or {}, baselines=baselines)
        self._known[candidate.id] = found
        return found
