"""An evaluator that first builds candidates for the target's GPU, and profiles good ones afterwards."""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Evaluation, Stage, Status
from kernelwright.core.evidence import FactValue
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import Evaluator, Session, SessionAround
from kernelwright.targets.gpu.inspect.ahead import AotCheck
from kernelwright.targets.gpu.profilers.profile import Profiled

Inspector: TypeAlias = Callable[[Task, Candidate], AotCheck]
"""Builds a candidate and returns what compilers report; never raises for a bad candidate."""
Profiler: TypeAlias = Callable[[Task, Candidate], Profiled]
"""Profiles a verified candidate on the device; never raises when no profile can be made."""
AHEAD, PROFILE = "ahead", "profile"


class InspectingEvaluator:
    """Asks an inspector first: what cannot be built or launched never reaches the inner evaluator.

    Asks a profiler, where there is one, about candidates that are verified and the fastest so far: a search
    goes on from those.
    """

    def __init__(self, inner: Evaluator, inspect: Inspector, profile: Profiler | None = None) -> None:
        self.inner, self.inspect, self.profile = inner, inspect, profile

    def open(self, task: Task) -> "InspectingSession":
        """Admit a task, as the inner evaluator does."""
        return InspectingSession(self.inner.open(task), task, self.inspect, self.profile)


class InspectingSession(SessionAround):
    """See Session. A candidate is looked at once, and profiled once, however often it is measured."""

    def __init__(self, inner: Session, task: Task, inspect: Inspector, profile: Profiler | None) -> None:
        super().__init__(inner)
        self._task, self._inspect, self._profile = task, inspect, profile
        self._seen: dict[str, AotCheck] = {}
        self._profiled: dict[str, Profiled] = {}
        self._best = 0.0

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the verdict; among its facts what compilers said, then the referee's, then a profiler's."""
        begin = time.perf_counter()
        ahead = self._seen.get(candidate.id)
        if ahead is None:
            ahead = self._seen[candidate.id] = self._inspect(self._task, candidate)
        phases = {AHEAD: time.perf_counter() - begin}
        if ahead.problem:
            return self._refused(candidate, ahead, phases, is_final=final)
        found = self._inner.evaluate(candidate, final=final, floors=floors or {}, baselines=baselines)
        begin = time.perf_counter()
        profiled = self._take_profile(candidate, found)
        if profiled is None:
            facts, notes = {**ahead.facts, **found.facts}, (*found.notes, ahead.note)
        else:
            facts = {**_facts_of(ahead, profiled.hottest), **found.facts, **profiled.facts}
            notes = (*found.notes, ahead.note, profiled.note)
            phases[PROFILE] = time.perf_counter() - begin
        more = {"facts": facts, "notes": notes, "phases_s": {**phases, **found.phases_s}}
        return found.model_copy(update=more)

    def _take_profile(self, candidate: Candidate, found: Evaluation) -> Profiled | None:
        """Return the candidate's profile; None for one that nothing starts from, or without a profiler."""
        speedup = found.geomean_speedup()
        if self._profile is None or speedup is None:
            return None
        if candidate.id not in self._profiled and speedup >= self._best:
            self._best = speedup
            self._profiled[candidate.id] = self._profile(self._task, candidate)
        return self._profiled.get(candidate.id)

    def _refused(
        self, candidate: Candidate, ahead: AotCheck, phases: dict[str, float], *, is_final: bool
    ) -> Evaluation:
        return Evaluation(
            candidate_id=candidate.id,
            task_id=self._task.id,
            stage=Stage.BUILD,
            status=Status.TIMEOUT if ahead.is_late else Status.COMPILE_ERROR,
            detail=ahead.problem,
            check=Check.LIMITS if ahead.is_late else Check.BUILD,
            log=ahead.log,
            phases_s=phases,
            facts=ahead.facts,
            notes=(ahead.note,),
            is_final=is_final,
            sandbox=ahead.sandbox,
        )


def _facts_of(ahead: AotCheck, hottest: str | None) -> dict[str, FactValue]:
    """Return what compilers said of the kernel that decides: the hottest, where a profiler named one.

    Of a library's kernel they said nothing; the heaviest of the candidate's own does not stand in for it.
    """
    if hottest is None:
        return ahead.facts
    common = {name: fact for name, fact in ahead.facts.items() if not _is_of_kernel(name)}
    return {**common, **ahead.by_kernel.get(hottest, {})}


def _is_of_kernel(metric: str) -> bool:
    return metric.startswith("aot.") or metric == "gpu.waves"
