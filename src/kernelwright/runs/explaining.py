"""An evaluator that looks where a candidate is wrong, once it is known to be: for whoever repairs it."""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import Evaluator, Session, SessionAround

EXPLAINED = (Status.INCORRECT_NUMERICS, Status.NON_FINITE)
EXPLAIN = "explain"

Explainer: TypeAlias = Callable[[Task, Candidate, Evaluation], tuple[str, ...]]
"""Says where outputs are wrong, on draws that no verdict rests on; never raises for a bad candidate."""


class ExplainingEvaluator:
    """An evaluator whose search verdicts of wrong numbers say in their log which elements are wrong."""

    def __init__(self, inner: Evaluator, explain: Explainer) -> None:
        self._inner, self._explain = inner, explain

    def open(self, task: Task) -> "ExplainingSession":
        """Admit a task, as the inner evaluator does."""
        return ExplainingSession(self._inner.open(task), task, self._explain)


class ExplainingSession(SessionAround):
    """See Session. The verdict is the inner session's; only the log and the seconds get more."""

    def __init__(self, inner: Session, task: Task, explain: Explainer) -> None:
        super().__init__(inner)
        self._task, self._explain = task, explain

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the verdict, explained where numbers are wrong."""
        found = self._inner.evaluate(candidate, final=final, floors=floors or {}, baselines=baselines)
        if final or found.status not in EXPLAINED:
            return found
        begin = time.perf_counter()
        lines = self._explain(self._task, candidate, found)
        if not lines:
            return found
        log = "\n".join([*([found.log.rstrip()] if found.log.strip() else []), *lines])
        phases = {**found.phases_s, EXPLAIN: time.perf_counter() - begin}
        return found.model_copy(update={"log": log, "phases_s": phases})
