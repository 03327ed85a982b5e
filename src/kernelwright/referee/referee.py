"""The way from a candidate to a verdict."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import Evaluation, NumericalError, Stage, Status, WorkloadResult
from kernelwright.core.evidence import FactValue
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.referee.advice import counter_facts, thread_scaling
from kernelwright.referee.build import build
from kernelwright.referee.contestant import Contestant, Failure
from kernelwright.referee.draws import Draw
from kernelwright.referee.guard import find_syntax_problem
from kernelwright.referee.launcher import Launcher
from kernelwright.referee.measure import Measurement
from kernelwright.referee.reference import Reference
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.verify import Verification

__all__ = ["Referee", "RefereeSettings", "Session"]

KNOWN_BASELINES = ("eager", "torch_compile")


class Referee:
    """Starts the warm process that everything else is forked from. Use as a context manager."""

    def __init__(self, settings: RefereeSettings) -> None:
        self.settings = settings
        self._launcher = Launcher(settings)
        self._launcher.start()

    def open(self, task: Task) -> "Session":
        """Admit a task: run its reference and draw the first inputs, weights and oracle.

        Raises:
            TaskError: no right answer can be had from it, with the reason in one line.
            MachineError: a process cannot be started or memory cannot be shared.
        """
        return Session(self._launcher, self.settings, task)

    def close(self) -> None:
        """End every process."""
        self._launcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Session:
    """One admitted task. Evaluations are independent of each other; not safe for use by two threads."""

    def __init__(self, launcher: Launcher, settings: RefereeSettings, task: Task) -> None:
        self.task = task
        self._launcher, self._settings = launcher, settings
        self._references = self._open_references(is_final=False)

    @property
    def baseline_ms(self) -> dict[str, float]:
        """Return workload -> latency of the eager reference as seen at admission (best of two calls)."""
        return {reference.workload.name: reference.eager_ms for reference in self._references}

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: Sequence[str] = ("eager",),
    ) -> Evaluation:
        """Judge one candidate on every workload.

        Args:
            candidate: What to judge; nothing of it runs in this process.
            final: Use fresh processes for the reference too, all-fresh seeds and more samples.
            floors: Workload -> roofline floor; a candidate that beats it by far is rejected.
            baselines: What to compare with; one that torch.compile cannot make is left out and the
                reason given in ``log``.

        Raises:
            TaskError: the reference failed, or its process died.
            MachineError: no compiler, no memory, no process.
        """
        unknown = sorted(set(baselines) - set(KNOWN_BASELINES))
        if unknown:
            raise MachineError(f"unknown baseline {unknown[0]!r}; known: {', '.join(KNOWN_BASELINES)}")
        references = self._open_references(is_final=True) if final else self._references
        try:
            trial = _Trial(self._launcher, self._settings, candidate, is_final=final)
            return trial.judge(self.task, references, floors or {}, tuple(baselines))
        finally:
            if final:
                _close_all(references)

    def close(self) -> None:
        """End the reference's processes."""
        _close_all(self._references)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_references(self, *, is_final: bool) -> list[Reference]:
        references: list[Reference] = []
        try:
            for workload in self.task.workloads:
                references.append(
                    Reference(self._launcher, self._settings, self.task, workload, is_final=is_final)
                )
        except BaseException:
            _close_all(references)
            raise
        return references


def _close_all(references: Sequence[Reference]) -> None:
    for reference in references:
        reference.close()


class _Trial:
    """One evaluation under way."""

    def __init__(
        self, launcher: Launcher, settings: RefereeSettings, candidate: Candidate, *, is_final: bool
    ) -> None:
        self._launcher, self._settings = launcher, settings
        self._candidate, self._is_final = candidate, is_final
        self._stage = Stage.GUARD
        self._phases_s: dict[str, float] = {}
        self._facts: dict[str, FactValue] = {}
        self._log = ""
        self._errors: list[NumericalError] = []

    def judge(
        self,
        task: Task,
        references: Sequence[Reference],
        floors: Mapping[str, Floor],
        baselines: tuple[str, ...],
    ) -> Evaluation:
        """Carry the candidate through the stages; the first failure ends it."""
        results: list[WorkloadResult] = []
        failure: Failure | None = None
        try:
            self._guard_and_build()
            for reference in references:
                results.append(self._judge_workload(reference, floors, baselines))
            self._stage = Stage.DONE
        except Failure as error:
            failure = error
        skipped = {name: why for reference in references for name, why in reference.skipped.items()}
        return Evaluation(
            candidate_id=self._candidate.id,
            task_id=task.id,
            stage=self._stage,
            status=failure.status if failure else Status.VERIFIED,
            detail=failure.detail if failure else "",
            log=(failure.log if failure and failure.log else self._log),
            errors=tuple(self._errors),
            families_skipped=skipped,
            results=() if failure else tuple(results),
            phases_s=self._phases_s,
            facts=self._facts,
            is_final=self._is_final,
        )

    def _guard_and_build(self) -> None:
        problem = find_syntax_problem(self._candidate.source)
        if problem:
            raise Failure(Status.PARSE_ERROR, problem)
        with self._phase(Stage.BUILD):
            cache, limit_s = self._launcher.build_cache, self._settings.build_timeout_s
            built = build(self._candidate.source, cache, limit_s)
        self._facts.update(built.facts or {})
        if built.error:
            raise Failure(Status.COMPILE_ERROR, built.error, built.log)

    def _judge_workload(
        self, reference: Reference, floors: Mapping[str, Floor], baselines: tuple[str, ...]
    ) -> WorkloadResult:
        contestant = Contestant(self._launcher, self._settings, reference)
        verification = Verification(contestant)
        try:
            with self._phase(Stage.LOAD):
                contestant.load(self._candidate.source)
            with self._phase(Stage.VERIFY):
                verification.check_all(_draws(reference))
            with self._phase(Stage.TIME):
                draws = [draw for key in reference.timed_keys if (draw := reference.draw(key))]
                measurement = Measurement(
                    contestant, verification, draws, self._settings, is_final=self._is_final
                )
                result = measurement.take(baselines, floors.get(reference.workload.name))
                if not self._is_final and "run.thread_scaling" not in self._facts:
                    sets = list(reference.slots)
                    self._facts |= counter_facts(contestant, sets, result.candidate)
                    self._facts |= thread_scaling(
                        contestant, sets, result.candidate, self._settings.n_threads
                    )
            for name in baselines:
                if why := reference.prepare_baseline(name):
                    self._log += f"baseline {name} is missing: {why}\n"
            return result
        finally:
            self._errors.extend(verification.errors)
            contestant.close()

    @contextlib.contextmanager
    def _phase(self, stage: Stage) -> Iterator[None]:
        self._stage = stage
        begin = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - begin
            self._phases_s[stage.value] = self._phases_s.get(stage.value, 0.0) + spent


def _draws(reference: Reference) -> Iterator[Draw]:
    """Yield the session's draws, then one that nobody has seen; made after the candidate was loaded."""
    for key in (*reference.timed_keys, *reference.other_keys):
        draw = reference.draw(key)
        if draw is not None:
            yield draw
    yield reference.fresh_draw()
