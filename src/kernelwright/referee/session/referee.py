"""The way from a candidate to a verdict."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import Evaluation, NumericalError, Stage, Status, WorkloadResult
from kernelwright.core.evidence import FactValue
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task, Workload
from kernelwright.referee.baselines import known_baselines
from kernelwright.referee.checks.guard import find_syntax_problem
from kernelwright.referee.checks.library_use import check_own_work
from kernelwright.referee.checks.verify import Verification
from kernelwright.referee.sandbox.tiers import Sandbox, Tier
from kernelwright.referee.session.advice import counter_facts, thread_scaling
from kernelwright.referee.session.candidate_process import Contestant, Failure
from kernelwright.referee.session.input_samples import Draw, new_seed, share_of
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.reference_process import Reference
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.measure import Measurement, check_plausible
from kernelwright.referee.timing.statistics import LOOKS, Samples, conclude, is_settled
from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import build_candidate

__all__ = ["Referee", "RefereeSettings", "Session"]

CACHE_BYTES = 16 << 20
"""Inputs and outputs above this size together do not stay in the caches of a usual machine."""
CONFIRMED_AFTER_S = (0.2, 1.0)
"""Pauses before the processes that must show again what clocks told of the first. Two threads that share a
core because another process has the other make every call of theirs five times as long, for seconds; a
candidate that does one thing and shows another does so in every process."""

T = TypeVar("T")


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

    @property
    def sandbox(self) -> Sandbox:
        """What candidates are confined by here, and why not by more."""
        return self._launcher.sandbox

    @property
    def tier(self) -> Tier:
        """How well candidates are confined here."""
        return self._launcher.sandbox.tier

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
        self._references = self._open_references()

    @property
    def baseline_ms(self) -> dict[str, float]:
        """Return workload -> latency of the eager reference as seen at admission (best of two calls)."""
        return {reference.workload.name: reference.eager_ms for reference in self._references}

    @property
    def scratch_prefix(self) -> str:
        """How the names of candidates' scratch directories begin, in the place for temporary files."""
        return self._launcher.scratch_prefix

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
            final: Use several pairs of fresh processes, for the reference too, and all-fresh seeds.
            floors: Workload -> roofline floor; a candidate that beats it by far is rejected.
            baselines: What to compare with; one that torch.compile cannot make is left out and the
                reason given in ``log``.

        Raises:
            TaskError: the reference failed, or its process died.
            MachineError: no compiler, no memory, no process.
        """
        known = known_baselines(self._settings.device)
        unknown = sorted(set(baselines) - set(known))
        if unknown:
            raise MachineError(f"unknown baseline {unknown[0]!r}; known: {', '.join(known)}")
        architecture = self._references[0].architecture
        trial = _Trial(self._launcher, self._settings, self.task, candidate, architecture, is_final=final)
        return trial.judge(() if final else self._references, floors or {}, tuple(baselines))

    def close(self) -> None:
        """End the reference's processes."""
        _close_all(self._references)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_references(self) -> list[Reference]:
        references: list[Reference] = []
        try:
            for workload in self.task.workloads:
                references.append(Reference(self._launcher, self._settings, self.task, workload))
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
        self,
        launcher: Launcher,
        settings: RefereeSettings,
        task: Task,
        candidate: Candidate,
        architecture: str | None,
        *,
        is_final: bool,
    ) -> None:
        self._launcher, self._settings, self._task = launcher, settings, task
        self._candidate, self._architecture, self._is_final = candidate, architecture, is_final
        self._stage = Stage.GUARD
        self._phases_s: dict[str, float] = {}
        self._facts: dict[str, FactValue] = {}
        self._log = ""
        self._skipped: dict[str, str] = {}
        self._errors: list[NumericalError] = []
        self._library: Path | None = None
        self._notes: dict[str, None] = {}
        self._library_calls: dict[str, int] = {}

    def judge(
        self, references: Sequence[Reference], floors: Mapping[str, Floor], baselines: tuple[str, ...]
    ) -> Evaluation:
        """Carry the candidate through the stages; the first failure ends it.

        A search evaluation is given the session's references, a final one opens its own.
        """
        results: list[WorkloadResult] = []
        failure: Failure | None = None
        try:
            self._guard_and_build()
            if self._is_final:
                for workload in self._task.workloads:
                    results.append(self._judge_finally(workload, floors.get(workload.name), baselines))
            else:
                for reference in references:
                    judge = partial(self._judge_once, reference, floors, baselines)
                    results.append(self._confirmed(judge))
            self._stage = Stage.DONE
        except Failure as error:
            failure = error
        return Evaluation(
            candidate_id=self._candidate.id,
            task_id=self._task.id,
            stage=self._stage,
            status=failure.status if failure else Status.VERIFIED,
            detail=failure.detail if failure else "",
            check=failure.check if failure else None,
            policy=self._settings.policy.model_copy(update={"precision": str(self._task.tolerance)}),
            log=(failure.log if failure and failure.log else self._log),
            errors=tuple(self._errors),
            families_skipped=self._skipped,
            results=() if failure else tuple(results),
            phases_s=self._phases_s,
            facts=self._facts,
            notes=tuple(self._notes),
            library_calls=None if failure else self._library_calls,
            is_final=self._is_final,
            sandbox=self._launcher.sandbox.tier.value,
        )

    def _guard_and_build(self) -> None:
        problem = find_syntax_problem(self._candidate.source)
        if problem:
            raise Failure(Status.PARSE_ERROR, problem)
        with self._phase(Stage.BUILD):
            site = BuildSite(
                cache_dir=self._launcher.build_cache,
                timeout_s=self._settings.build_timeout_s,
                run=self._launcher.run_compiler,
                architecture=self._architecture,
            )
            built = build_candidate(self._candidate.source, site)
        self._library = built.library
        self._facts.update(built.facts or {})
        if built.error:
            status = Status.TIMEOUT if built.is_late else Status.COMPILE_ERROR
            raise Failure(status, built.error, built.log)

    def _confirmed(self, judge: Callable[[], T]) -> T:
        """Judge; what only clocks tell against a candidate, so many processes of its own must show."""
        for pause_s in CONFIRMED_AFTER_S:
            try:
                return judge()
            except Failure as failure:
                if not failure.is_by_clock:
                    raise
                self._notes[f"not held against it unless found again: {failure.detail}"] = None
                time.sleep(pause_s)
        return judge()

    def _judge_once(
        self, reference: Reference, floors: Mapping[str, Floor], baselines: tuple[str, ...]
    ) -> WorkloadResult:
        """Verify and time a workload in one worker, beside the session's host."""
        contestant = Contestant(self._launcher, self._settings, reference, self._library)
        try:
            samples = self._judge_pair(contestant, baselines, is_first=True)
            with self._phase(Stage.TIME):
                floor = floors.get(reference.workload.name)
                result = conclude(
                    reference.workload.name, [samples], floor, spread=self._process_spread(reference)
                )
                check_plausible(result, self._settings.floor_margin)
                if "run.thread_scaling" not in self._facts and not reference.device.is_apart:
                    sets = list(reference.slots)
                    self._facts |= counter_facts(contestant, sets, result.candidate)
                    self._facts |= thread_scaling(
                        contestant, sets, result.candidate, self._settings.n_threads
                    )
            return result
        finally:
            contestant.close()

    def _judge_finally(
        self, workload: Workload, floor: Floor | None, baselines: tuple[str, ...]
    ) -> WorkloadResult:
        """Verify a workload in fresh processes and time it in several pairs of them."""
        pairs: list[Samples] = []
        order = new_seed()
        begin = time.perf_counter()
        while not pairs or not is_settled(pairs):
            spent_s = time.perf_counter() - begin
            if len(pairs) == LOOKS[0] and spent_s / LOOKS[0] * LOOKS[1] > self._settings.final_seconds:
                break
            judge = partial(self._judge_fresh_pair, workload, baselines, turn=len(pairs), order=order)
            pairs.append(self._confirmed(judge))
        result = conclude(workload.name, pairs, floor)
        check_plausible(result, self._settings.floor_margin)
        return result

    def _judge_fresh_pair(
        self, workload: Workload, baselines: tuple[str, ...], *, turn: int, order: int
    ) -> Samples:
        """Open a host and a worker and judge there; on all draws in the first turn, then on the timed ones.

        After the timing each of the later processes meets its share of the other input families, so that none
        can be fast on what it has seen and wrong on the rest. ``order`` decides secretly who meets what.
        """
        launcher, settings = self._launcher, self._settings
        with self._phase(Stage.LOAD):
            reference = Reference(
                launcher, settings, self._task, workload, is_final=True, is_timed_only=turn > 0
            )
        with contextlib.closing(reference):
            contestant = Contestant(launcher, settings, reference, self._library)
            with contextlib.closing(contestant):
                samples = self._judge_pair(contestant, baselines, is_first=turn == 0)
                if turn > 0:
                    self._check_share(contestant, turn, order)
                return samples

    def _check_share(self, contestant: Contestant, turn: int, order: int) -> None:
        reference, verification = contestant.reference, Verification(contestant)
        try:
            with self._phase(Stage.VERIFY):
                for key in share_of(reference.other_keys, turn, order, LOOKS[0] - 1):
                    draw = reference.draw(key)
                    if draw is not None:
                        verification.check(draw)
        finally:
            self._keep_worst(verification.errors)

    def _judge_pair(self, contestant: Contestant, baselines: tuple[str, ...], *, is_first: bool) -> Samples:
        reference = contestant.reference
        verification = Verification(contestant)
        try:
            with self._phase(Stage.LOAD):
                contestant.load(self._candidate.source)
            with self._phase(Stage.VERIFY):
                verification.check_all(_draws(reference, is_timed_only=not is_first))
            with self._phase(Stage.TIME):
                draws = [draw for key in reference.timed_keys if (draw := reference.draw(key))]
                measurement = Measurement(
                    contestant, verification, draws, self._settings, is_final=self._is_final
                )
                samples = measurement.take(baselines)
                self._notes |= {measurement.note: None} if measurement.note else {}
                if is_first:
                    self._check_own_work(contestant, draws[0])
        finally:
            self._skipped |= reference.skipped
            self._keep_worst(verification.errors)
        if is_first and verification.notes:
            self._log += f"left changed in its process: {'; '.join(verification.notes)}\n"
        for name in baselines if is_first else ():
            if why := reference.prepare_baseline(name):
                self._log += f"baseline {name} is missing: {why}\n"
        return samples

    def _check_own_work(self, contestant: Contestant, draw: Draw) -> None:
        self._library_calls |= check_own_work(
            self._settings.policy, contestant, self._candidate.source, draw, self._library,
            lambda library: Contestant(self._launcher, self._settings, contestant.reference, library),
        )  # fmt: skip

    def _keep_worst(self, errors: Sequence[NumericalError]) -> None:
        worst = {(e.workload, e.family, e.output): e for e in self._errors}
        for error in errors:
            key = error.workload, error.family, error.output
            if key not in worst or error.error > worst[key].error:
                worst[key] = error
        self._errors = list(worst.values())

    def _process_spread(self, reference: Reference) -> float:
        is_large = reference.layout.args_bytes + reference.output_bytes > CACHE_BYTES
        return self._settings.large_process_spread if is_large else self._settings.process_spread

    @contextlib.contextmanager
    def _phase(self, stage: Stage) -> Iterator[None]:
        self._stage = stage
        begin = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - begin
            self._phases_s[stage.value] = self._phases_s.get(stage.value, 0.0) + spent


def _draws(reference: Reference, *, is_timed_only: bool) -> Iterator[Draw]:
    """Yield the session's draws, then one that nobody has seen; made after the candidate was loaded."""
    for key in reference.timed_keys if is_timed_only else (*reference.timed_keys, *reference.other_keys):
        draw = reference.draw(key)
        if draw is not None:
            yield draw
    if not is_timed_only:
        yield reference.fresh_draw()
