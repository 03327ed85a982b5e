"""The way from a candidate to a verdict; ``STAGES``, at the end, is all of it in order."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
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
from kernelwright.referee.checks.replay import Replay
from kernelwright.referee.checks.verify import Verification
from kernelwright.referee.sandbox.tiers import Sandbox, Tier
from kernelwright.referee.session.advice import counter_facts, thread_scaling
from kernelwright.referee.session.candidate_process import Contestant, Failure
from kernelwright.referee.session.input_samples import Draw, new_seed, share_of
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.reference_process import Reference
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.measure import EAGER, Measurement, check_plausible
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


class _When(Enum):
    """How often a stage comes."""

    ONCE = "before anything of the candidate runs"
    EACH = "in each pair of a reference and a worker"
    FIRST = "in the first pair"
    LATER = "in the pairs after the first"
    RESULT = "on what the pairs of a workload gave"


@dataclass(frozen=True)
class _Step:
    """One stage, or a named part of one."""

    stage: Stage
    name: str
    when: _When
    run: Callable[["_Trial"], None]


@dataclass
class _Pair:
    """A reference and a worker with the candidate, and what is under way between them."""

    contestant: Contestant
    baselines: tuple[str, ...]
    turn: int
    order: int
    """Decides secretly which of the later pairs meets which input families."""
    verification: Verification
    draws: Sequence[Draw] = ()
    """Those whose inputs are timed."""
    measurement: Measurement | None = None

    @property
    def timing(self) -> Measurement:
        """The measurement; asking for it before it was taken is a bug of ours."""
        assert self.measurement is not None
        return self.measurement


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
        self._pair: _Pair
        self._result: WorkloadResult

    def judge(
        self, references: Sequence[Reference], floors: Mapping[str, Floor], baselines: tuple[str, ...]
    ) -> Evaluation:
        """Carry the candidate through the stages; the first failure ends it.

        A search evaluation is given the session's references, a final one opens its own.
        """
        results: list[WorkloadResult] = []
        failure = self._attempt(partial(self._judge_all, results, references, floors, baselines))
        if failure is None:
            self._stage = Stage.DONE
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

    def _judge_all(
        self,
        results: list[WorkloadResult],
        references: Sequence[Reference],
        floors: Mapping[str, Floor],
        baselines: tuple[str, ...],
    ) -> None:
        self._run(_When.ONCE)
        if self._is_final:
            for workload in self._task.workloads:
                results.append(self._judge_finally(workload, floors.get(workload.name), baselines))
            return
        for reference in references:
            judge = partial(self._judge_once, reference, floors, baselines)
            results.append(self._confirmed(judge))

    @staticmethod
    def _attempt(run: Callable[[], object]) -> Failure | None:
        """Run checks and return the first that fails: the one place where a Failure is caught."""
        try:
            run()
        except Failure as failure:
            return failure
        return None

    def _run(self, *when: _When) -> None:
        """Carry out the stages that come then, in their order; the first takes no time worth telling."""
        for step in STAGES:
            if step.when in when:
                with contextlib.nullcontext() if step.stage is Stage.GUARD else self._phase(step.stage):
                    step.run(self)

    def guard(self) -> None:
        """Look at the text alone."""
        problem = find_syntax_problem(self._candidate.source)
        if problem:
            raise Failure(Status.PARSE_ERROR, problem)

    def build(self) -> None:
        """Compile what the text has for a compiler."""
        site = BuildSite(
            cache_dir=self._launcher.build_cache,
            timeout_s=self._settings.build_timeout_s,
            run=self._launcher.run_compiler,
            architecture=self._architecture,
        )
        built = build_candidate(self._candidate.program, site)
        self._library = built.library
        self._facts.update(built.facts or {})
        if built.error:
            status = Status.TIMEOUT if built.is_late else Status.COMPILE_ERROR
            raise Failure(status, built.error, built.log)

    def _confirmed(self, judge: Callable[[], T]) -> T:
        """Judge. A failure that rests on clocks alone counts only when several processes all show it."""
        found: list[T] = []
        for pause_s in CONFIRMED_AFTER_S:
            failure = self._attempt(lambda: found.append(judge()))
            if failure is None:
                return found[0]
            if not failure.is_by_clock:
                raise failure
            self._notes[f"not held against it unless found again: {failure.detail}"] = None
            time.sleep(pause_s)
        return judge()

    def _judge_once(
        self, reference: Reference, floors: Mapping[str, Floor], baselines: tuple[str, ...]
    ) -> WorkloadResult:
        """Verify and time a workload in one worker, beside the session's host."""
        contestant = Contestant(self._launcher, self._settings, reference, self._library)
        try:
            samples = self._judge_pair(contestant, baselines)
            floor = floors.get(reference.workload.name)
            result = self._conclude(
                conclude(reference.workload.name, [samples], floor, spread=self._process_spread(reference))
            )
            with self._phase(Stage.TIME):
                self._advise(contestant, result)
            return result
        finally:
            contestant.close()

    def _conclude(self, result: WorkloadResult) -> WorkloadResult:
        """Return what the pairs of a workload gave once it has passed what is asked of it."""
        self._result = result
        self._run(_When.RESULT)
        return result

    def _advise(self, contestant: Contestant, result: WorkloadResult) -> None:
        """Gather facts for the search; no verdict rests on them."""
        reference = contestant.reference
        if "run.thread_scaling" in self._facts or reference.device.is_apart:
            return
        sets = list(reference.slots)
        self._facts |= counter_facts(contestant, sets, result.candidate)
        self._facts |= thread_scaling(contestant, sets, result.candidate, self._settings.n_threads)

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
        return self._conclude(conclude(workload.name, pairs, floor))

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
                return self._judge_pair(contestant, baselines, turn=turn, order=order)

    def _judge_pair(
        self, contestant: Contestant, baselines: tuple[str, ...], *, turn: int = 0, order: int = 0
    ) -> Samples:
        """Carry the candidate through the stages of one pair of processes."""
        pair = self._pair = _Pair(contestant, baselines, turn, order, Verification(contestant))
        try:
            self._run(_When.EACH, _When.FIRST if turn == 0 else _When.LATER)
        finally:
            if pair.measurement is not None:
                pair.measurement.close()
            self._skipped |= contestant.reference.skipped
            self._keep_worst(pair.verification.errors)
        return pair.timing.samples()

    def load(self) -> None:
        """Import the candidate in its worker and construct it."""
        self._pair.contestant.load(self._candidate.program)

    def verify(self) -> None:
        """Compare with the oracle on the draws of this pair."""
        pair, is_first = self._pair, self._pair.turn == 0
        pair.verification.check_all(_draws(pair.contestant.reference, is_timed_only=not is_first))
        if is_first and pair.verification.notes:
            self._log += f"left changed in its process: {'; '.join(pair.verification.notes)}\n"

    def time(self) -> None:
        """Time the candidate and the baselines alternately; say which baselines are missing."""
        pair, reference = self._pair, self._pair.contestant.reference
        pair.draws = [draw for key in reference.timed_keys if (draw := reference.draw(key))]
        pair.measurement = Measurement(
            pair.contestant, pair.verification, pair.draws, self._settings, is_final=self._is_final
        )
        pair.measurement.take(pair.baselines)
        for name in pair.baselines if pair.turn == 0 else ():
            if why := reference.prepare_baseline(name):
                self._log += f"baseline {name} is missing: {why}\n"

    def check_clocks(self) -> None:
        """Compare the clocks that saw the timed calls."""
        self._pair.timing.check_clocks()

    def check_idle(self) -> None:
        """Look for work that its process does while nothing is asked of it."""
        self._pair.contestant.check_idle()

    def replay(self) -> None:
        """Call it on inputs that it has never seen, every output kept."""
        pair = self._pair
        pair.contestant.watch.reset()
        samples = pair.timing.samples()
        eager_ms = samples.baselines.get(EAGER, ())
        size = self._settings.replay_size
        missing = Replay(pair.contestant, pair.draws, samples.candidate, eager_ms, size).check()
        self._notes |= {missing: None} if missing else {}

    def check_untampered(self) -> None:
        """Look whether what does not belong to it is as it was."""
        self._pair.contestant.check_untampered()

    def check_late(self) -> None:
        """Look at outputs and inputs once more after all calls; threads are let go of then."""
        self._pair.timing.check_late()
        self._pair.timing.close()

    def check_own_work(self) -> None:
        """Look at what it does itself and what it leaves to libraries, as the policy asks."""
        self._check_own_work(self._pair.contestant, self._pair.draws[0])

    def check_share(self) -> None:
        """Verify on this pair's share of the other input families."""
        pair, verification = self._pair, Verification(self._pair.contestant)
        reference = pair.contestant.reference
        try:
            for key in share_of(reference.other_keys, pair.turn, pair.order, LOOKS[0] - 1):
                draw = reference.draw(key)
                if draw is not None:
                    verification.check(draw)
        finally:
            self._keep_worst(verification.errors)

    def check_floor(self) -> None:
        """Hold the latency of a workload against what the machine can do."""
        check_plausible(self._result, self._settings.floor_margin)

    def _check_own_work(self, contestant: Contestant, draw: Draw) -> None:
        self._library_calls |= check_own_work(
            self._settings.policy, contestant, self._candidate.program, draw, self._library,
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


STAGES = (
    _Step(Stage.GUARD, "guard", _When.ONCE, _Trial.guard),
    _Step(Stage.BUILD, "build", _When.ONCE, _Trial.build),
    _Step(Stage.LOAD, "load", _When.EACH, _Trial.load),
    _Step(Stage.VERIFY, "verify", _When.EACH, _Trial.verify),
    _Step(Stage.TIME, "time", _When.EACH, _Trial.time),
    _Step(Stage.TIME, "clocks", _When.EACH, _Trial.check_clocks),
    _Step(Stage.REPLAY, "idle work after timing", _When.EACH, _Trial.check_idle),
    _Step(Stage.REPLAY, "replay", _When.EACH, _Trial.replay),
    _Step(Stage.REPLAY, "idle work after replay", _When.EACH, _Trial.check_idle),
    _Step(Stage.REPLAY, "tamper", _When.EACH, _Trial.check_untampered),
    _Step(Stage.REPLAY, "late outputs", _When.EACH, _Trial.check_late),
    _Step(Stage.REPLAY, "own work", _When.FIRST, _Trial.check_own_work),
    _Step(Stage.VERIFY, "share of the other families", _When.LATER, _Trial.check_share),
    _Step(Stage.TIME, "floor", _When.RESULT, _Trial.check_floor),
)
"""What a candidate goes through, in this order; the first check that fails ends it. A search has one pair of
processes for a workload, a final several."""
