"""One evaluation, from a candidate to a verdict. ``STAGES``, at the end, lists all stages in order."""

import contextlib
import secrets
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import (
    Check,
    Evaluation,
    NumericalError,
    OrdinaryResult,
    PeakMemory,
    Stage,
    Status,
    WorkloadResult,
)
from kernelwright.core.evidence import FactValue
from kernelwright.core.policy import LibraryCalls, Weights
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task, Workload
from kernelwright.machine.code_samples import CodeSamples
from kernelwright.machine.device_lease import DeviceLease
from kernelwright.referee.checks.floor import FloorCheck
from kernelwright.referee.checks.guard import find_syntax_problem
from kernelwright.referee.checks.library_use import check_library_use
from kernelwright.referee.checks.own_code import mapped_code, own_code_problem, owner_of
from kernelwright.referee.checks.renewed import Renewal
from kernelwright.referee.checks.replay import Replay
from kernelwright.referee.checks.verify import Verification
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox.processes import family_of
from kernelwright.referee.session.advice import counter_facts, thread_scaling
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample, new_seed, share_of
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.ordinary import (
    ONE_THREAD_BASELINES,
    TimedProgram,
    peak_memory,
    programs,
    require_memory,
)
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.weight_exchange import WeightExchange
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.measure import EAGER, Measurement
from kernelwright.referee.timing.pinning import Pinning, waited_share, worked_s
from kernelwright.referee.timing.statistics import LOOKS, Samples, conclude, is_settled
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.referee.worker.wire import Message
from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import build_candidate

CACHE_BYTES = 16 << 20
"""Inputs and outputs larger than this together do not stay in the caches of a usual machine."""
WAITING = "waiting"
"""Phase in which an evaluation waited for other processes to give the device back."""
NO_WAIT_S = 0.02
ALONE_MS = 2000.0
"""Nothing is timed with one thread where a call of the reference might then take longer than this."""
AGAIN_MS = 200.0
"""Slower references are not timed again after the replay; the replay's factor bounds what that would show."""
ONE_CORE = 1.3
"""A process that keeps more cores than this busy works with more than one thread; accounts lag a little."""
CONFIRMED_AFTER_S = (0.2, 1.0)
"""A failure that only clocks show must be found again in further processes, started after these pauses. Two
threads that share a core, because another process holds the second core, make every call five times as long
for seconds. A candidate that cheats is found in every process. Where the threads of the process in which it
was found hardly waited for a core there was no such other process, and so there is no pause."""
QUIET_SHARE = 0.04
"""Threads that waited for a core in a smaller share of their time than this were not disturbed."""

NEW_VALUES = "its times are multiplied by "
"""What a finding begins with that is no reason to reject."""

T = TypeVar("T")
Floors: TypeAlias = Mapping[str, Floor] | Callable[[], Mapping[str, Floor]]
"""Workload -> roofline floor, or what gives them; it is called before the first timing."""


def build_site(launcher: Launcher, settings: RefereeSettings, architecture: str | None) -> BuildSite:
    """Return where candidates are built, confined and within the settings' limits."""
    return BuildSite(
        cache_dir=launcher.build_cache,
        timeout_s=settings.build_timeout_s,
        run=launcher.run_compiler,
        architecture=architecture,
    )


class _When(Enum):
    """When a stage runs."""

    ONCE = "before any code of the candidate runs"
    EACH = "in each pair of a host and a worker"
    FIRST = "in the first pair"
    LATER = "in the pairs after the first"
    ORDINARY = "in the pairs of ordinary processes"
    RESULT = "on the result of all pairs of a workload"


@dataclass(frozen=True)
class _Step:
    """One stage, or a named part of one."""

    stage: Stage
    name: str
    when: _When
    run: Callable[["Judging"], None]
    needs_timing: bool = False
    """Has no place where a workload is verified only."""


@dataclass
class _Pair:
    """A host and a worker, with the state of their stages."""

    worker: CandidateProcess
    baselines: tuple[str, ...]
    turn: int
    order: int
    """Secret seed that decides which of the later pairs gets which input distributions."""
    verification: Verification
    lease: DeviceLease
    """Held from the first timed call to the last."""
    pinning: Pinning
    draws: Sequence[InputSample] = ()
    """The samples whose inputs are timed."""
    measurement: Measurement | None = None
    exchange: WeightExchange | None = None
    samples: CodeSamples | None = None
    """Where the worker spends its time, when the policy wants it known and this machine tells."""
    program: TimedProgram | None = None
    """What an ordinary process loads; None: the candidate's program."""
    alone: Measurement | None = None
    """The measurement with one thread, in an ordinary process."""

    @property
    def weights(self) -> WeightExchange:
        """Which weights come next. To ask for it before timing is an error in this file."""
        assert self.exchange is not None
        return self.exchange

    @property
    def timing(self) -> Measurement:
        """The measurement. To ask for it before it was taken is an error in this file."""
        assert self.measurement is not None
        return self.measurement


class Judging:
    """One evaluation in progress."""

    def __init__(
        self,
        launcher: Launcher,
        settings: RefereeSettings,
        task: Task,
        candidate: Candidate,
        architecture: str | None,
        check: FloorCheck,
        floors: Floors,
        *,
        ordinary: Launcher | None,
    ) -> None:
        """``ordinary``: starts the ordinary processes of a final; None: this is no final."""
        is_final = ordinary is not None
        self._ordinary_launcher = ordinary
        self._ordinary: list[OrdinaryResult] = []
        self._memory: PeakMemory | None = None
        """Of the workload that is being judged, in ordinary processes."""
        self._factors: dict[tuple[str, bool], list[float]] = defaultdict(list)
        """Workload, and whether it was timed with one thread -> what the candidate's times had to be
        multiplied by, in each pair of processes."""
        self._lot = secrets.randbelow(2)
        """Whether pairs of even or of odd number are timed again after the replay."""
        self._accepted: dict[str, Message] = {}
        """Workload -> what its reference accepts as inputs; all processes of a final agree."""
        self._is_timed_alone: dict[str, bool] = {}
        """Workload -> whether it is also timed with one thread: all pairs agree."""
        self._floor_check, self._floors_or_maker = check, floors
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
        self._floor: Floor | None = None
        self._seen: Counter[str] = Counter()
        """Kind of what only clocks show -> processes that have shown it so far."""
        self._waited_share = 1.0
        """Of the last worker's threads; see ``waited_share``."""

    def judge(self, references: Sequence[ReferenceProcess], baselines: tuple[str, ...]) -> Evaluation:
        """Run the stages on the candidate; the first failure ends the evaluation.

        A search evaluation uses the session's references, a final evaluation opens its own.
        """
        results: list[WorkloadResult] = []
        failure = self._attempt(partial(self._judge_all, results, references, baselines))
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
            ordinary=None if failure or not self._ordinary else tuple(self._ordinary),
            phases_s=self._phases_s,
            facts=self._facts,
            notes=tuple(self._notes),
            library_calls=None if failure else self._library_calls,
            is_final=self._is_final,
            referee=REFEREE_VERSION,
            sandbox=self._launcher.sandbox.tier.value,
        )

    def _judge_all(
        self,
        results: list[WorkloadResult],
        references: Sequence[ReferenceProcess],
        baselines: tuple[str, ...],
    ) -> None:
        self._run(_When.ONCE)
        if self._is_final:
            for workload in self._task.workloads:
                if not workload.is_timed:
                    self._confirmed(partial(self._verify_finally, workload))
                    continue
                results.append(self._judge_finally(workload, baselines))
                self._judge_ordinarily(workload, baselines)
            return
        for reference in references:
            if reference.workload.is_timed:
                judge = partial(self._judge_once, reference, baselines)
                results.append(self._confirmed(judge))
            else:
                self._confirmed(partial(self._verify_only, reference))

    @staticmethod
    def _attempt(run: Callable[[], object]) -> Failure | None:
        """Run checks and return the first that fails: the one place where a Failure is caught."""
        try:
            run()
        except Failure as failure:
            return failure
        return None

    def _run(self, *when: _When, is_timed: bool = True) -> None:
        """Run the stages of these kinds in their order and record their times, except that of the guard."""
        for step in STAGES:
            if step.when in when and (is_timed or not step.needs_timing):
                with contextlib.nullcontext() if step.stage is Stage.GUARD else self._phase(step.stage):
                    step.run(self)

    @cached_property
    def _floors(self) -> Mapping[str, Floor]:
        given = self._floors_or_maker
        return given() if callable(given) else given

    def guard(self) -> None:
        """Check the source text alone."""
        problem = find_syntax_problem(self._candidate.source)
        if problem:
            raise Failure(Status.PARSE_ERROR, problem)

    def build(self) -> None:
        """Compile what the text has for a compiler."""
        site = build_site(self._launcher, self._settings, self._architecture)
        built = build_candidate(self._candidate.program, site)
        self._library = built.library
        self._facts.update(built.facts or {})
        if built.error:
            status = Status.TIMEOUT if built.is_late else Status.COMPILE_ERROR
            raise Failure(status, built.error, built.log)

    def _confirmed(self, judge: Callable[[], T]) -> T:
        """Judge. What only clocks show counts only if several processes, one after the other, show it."""
        found: list[T] = []
        self._seen.clear()
        while True:
            failure = self._attempt(lambda: found.append(judge()))
            if failure is None:
                return found[0]
            kind = _kind_of(failure)
            if not failure.is_by_clock or self._is_seen_enough(kind):
                raise failure
            pause_s = CONFIRMED_AFTER_S[self._seen[kind]]
            self._seen[kind] += 1
            self._notes[f"counts only if found again in other processes: {failure.detail}"] = None
            if self._waited_share >= QUIET_SHARE:
                time.sleep(pause_s)

    def _is_seen_enough(self, kind: str) -> bool:
        """True where all processes but the present one have shown such a finding."""
        return self._seen[kind] >= len(CONFIRMED_AFTER_S)

    def _judge_once(self, reference: ReferenceProcess, baselines: tuple[str, ...]) -> WorkloadResult:
        """Verify and time a workload in one worker, beside the session's host."""
        worker = CandidateProcess(self._launcher, self._settings, reference, self._library)
        with contextlib.closing(worker):
            samples = self._judge_pair(worker, baselines)
            spread = self._process_spread(reference)
            result = self._result_of(reference.workload, [samples], spread=spread)
            with self._phase(Stage.TIME):
                self._advise(worker, result)
        return self._conclude(result, self._floors.get(reference.workload.name))

    def _verify_only(self, reference: ReferenceProcess) -> None:
        """Verify a workload that is not timed, in one worker."""
        worker = CandidateProcess(self._launcher, self._settings, reference, self._library)
        with contextlib.closing(worker):
            self._run_pair(worker, (), is_timed=False)

    def _verify_finally(self, workload: Workload) -> None:
        """Verify a workload that is not timed, in fresh processes."""
        with self._phase(Stage.LOAD):
            reference = self._fresh_reference(self._launcher, workload, is_timed_only=False)
        with contextlib.closing(reference):
            self._verify_only(reference)

    def _result_of(
        self, workload: Workload, pairs: Sequence[Samples], *, spread: float = 0.0, is_alone: bool = False
    ) -> WorkloadResult:
        """Return the result of pairs; what new values cost in most of those seen so far, they cost in all.

        One pair alone may miss this cost: other programs may have been at work beside it.
        """
        factor = statistics.median_low(self._factors[workload.name, is_alone] or [1.0])
        return conclude(workload.name, [pair.with_factor(factor) for pair in pairs], spread=spread)

    def _conclude(self, result: WorkloadResult, floor: Floor | None) -> WorkloadResult:
        """Return the result of a workload after it has passed the checks of results; no worker is left."""
        self._result, self._floor = result, floor
        self._run(_When.RESULT)
        return self._result

    def _advise(self, worker: CandidateProcess, result: WorkloadResult) -> None:
        """Gather facts for the search, on which no verdict rests."""
        reference = worker.reference
        if "run.thread_scaling" in self._facts or reference.device.is_apart:
            return
        sets = reference.first_sets
        lease = self._lease()
        try:
            self._take(lease)
            self._facts |= counter_facts(worker, sets, result.candidate)
            self._facts |= thread_scaling(worker, sets, result.candidate, self._settings.n_threads)
        finally:
            lease.release()

    def _lease(self) -> DeviceLease:
        return DeviceLease(parse_device(self._settings.device).lease_names(), self._launcher.tell)

    def _take(self, lease: DeviceLease, before_wait: Callable[[], object] = lambda: None) -> bool:
        """Take it, and tell whether that took time; a wait is a phase of its own."""
        lease.take(before_wait)
        has_waited = lease.waited_s > NO_WAIT_S
        if has_waited:
            self._phases_s[WAITING] = self._waited_s + lease.waited_s
        return has_waited

    @property
    def _waited_s(self) -> float:
        return self._phases_s.get(WAITING, 0.0)

    def _judge_finally(self, workload: Workload, baselines: tuple[str, ...]) -> WorkloadResult:
        """Verify and time a workload in fresh processes: one pair if ordinary ones follow, else several."""
        judge = partial(self._judge_fresh_pair, workload, baselines, new_seed())
        pairs = [self._confirmed(partial(judge, 0))] if self._has_ordinary else self._judge_pairs(judge)
        spread = self._process_spread(self._pair.worker.reference)
        result = self._result_of(workload, pairs, spread=spread)
        return self._conclude(result, self._floors.get(workload.name))

    @property
    def _has_ordinary(self) -> bool:
        """Whether what is delivered is also timed in ordinary processes; on a device there are none."""
        return self._ordinary_launcher is not None and not parse_device(self._settings.device).is_apart

    def _judge_pairs(self, judge: Callable[[int], Samples]) -> list[Samples]:
        """Judge in pairs of processes, numbered from 0, until more would add nothing or take too long."""
        pairs: list[Samples] = []
        begin = time.perf_counter() - self._waited_s
        while not pairs or not is_settled(pairs):
            spent_s = time.perf_counter() - begin - self._waited_s
            if len(pairs) == LOOKS[0] and spent_s / LOOKS[0] * LOOKS[1] > self._settings.final_seconds:
                break
            pairs.append(self._confirmed(partial(judge, len(pairs))))
        return pairs

    def _judge_ordinarily(self, workload: Workload, baselines: tuple[str, ...]) -> None:
        """Judge and time what is delivered in pairs of ordinary processes, if there are any.

        Together they get all input distributions: what runs only there must be right on all of them, too.
        """
        if self._ordinary_launcher is None or not self._has_ordinary:
            return
        if (form := self._settings.delivered) is not None:
            self._ordinary_launcher.load(form.needs)
        program, *others = programs(self._settings, self._candidate, self._task, workload)
        alone: list[Samples] = []
        order = new_seed()
        self._memory = None

        def judge(turn: int) -> Samples:
            nonlocal program
            try:
                samples = self._judge_ordinary_pair(workload, baselines, program, turn=turn, order=order)
            except Failure as failure:
                if self._stage is not Stage.LOAD or turn > 0 or not others:
                    raise
                self._notes[f"the module was not timed, only its kernel: {failure.detail}"] = None
                program = others.pop()
                samples = self._judge_ordinary_pair(workload, baselines, program, turn=turn, order=order)
            alone.extend([self._pair.alone.samples()] if self._pair.alone else [])
            return samples

        pairs = self._judge_pairs(judge)
        result = self._conclude(self._result_of(workload, pairs), self._floors.get(workload.name))
        with_one = self._result_of(workload, alone, is_alone=True) if len(alone) == len(pairs) else None
        self._ordinary.append(
            OrdinaryResult(
                timed="module" if program.is_module else "kernel",
                all_threads=result, one_thread=with_one, memory=self._memory,
            )
        )  # fmt: skip

    def _judge_ordinary_pair(
        self, workload: Workload, baselines: tuple[str, ...], program: TimedProgram, *, turn: int, order: int
    ) -> Samples:
        launcher = self._ordinary_launcher
        assert launcher is not None
        with self._phase(Stage.LOAD):
            reference = self._fresh_reference(launcher, workload, is_timed_only=True)
        with contextlib.closing(reference):
            worker = CandidateProcess(launcher, self._settings, reference, self._library, program.shown)
            with contextlib.closing(worker):
                return self._judge_pair(worker, baselines, turn=1 + turn, order=order, program=program)

    def _judge_fresh_pair(
        self, workload: Workload, baselines: tuple[str, ...], order: int, turn: int
    ) -> Samples:
        """Open a host and a worker and judge there: on all samples in the first turn, else on timed ones.

        After its timing, each of the later pairs also gets its share of the other input distributions, so
        that no process can be fast on inputs it has seen and wrong on the others. ``order`` is the secret
        seed of the shares.
        """
        with self._phase(Stage.LOAD):
            reference = self._fresh_reference(self._launcher, workload, is_timed_only=turn > 0)
        with contextlib.closing(reference):
            worker = CandidateProcess(self._launcher, self._settings, reference, self._library)
            with contextlib.closing(worker):
                return self._judge_pair(worker, baselines, turn=turn, order=order)

    def _fresh_reference(
        self, launcher: Launcher, workload: Workload, *, is_timed_only: bool
    ) -> ReferenceProcess:
        """Open the reference once more, with new samples; what it accepts is found out once."""
        reference = ReferenceProcess(
            launcher, self._settings, self._task, workload, is_final=True, is_timed_only=is_timed_only,
            accepted=self._accepted.get(workload.name),
        )  # fmt: skip
        self._accepted[workload.name] = reference.accepted
        return reference

    def _judge_pair(
        self,
        worker: CandidateProcess,
        baselines: tuple[str, ...],
        *,
        turn: int = 0,
        order: int = 0,
        program: TimedProgram | None = None,
    ) -> Samples:
        """Run the stages of one pair of processes; ``program`` is what ordinary ones load."""
        return self._run_pair(worker, baselines, turn=turn, order=order, program=program).timing.samples()

    def _run_pair(
        self,
        worker: CandidateProcess,
        baselines: tuple[str, ...],
        *,
        turn: int = 0,
        order: int = 0,
        program: TimedProgram | None = None,
        is_timed: bool = True,
    ) -> _Pair:
        pinning = Pinning()
        pair = self._pair = _Pair(
            worker, baselines, turn, order, Verification(worker, pinning), self._lease(), pinning,
            program=program,
        )  # fmt: skip
        kinds = {_When.EACH, _When.FIRST if turn == 0 else _When.LATER}
        if program is not None:
            kinds.add(_When.ORDINARY)
        try:
            self._run(*kinds, is_timed=is_timed)
        finally:
            if pair.alone is not None:
                pair.alone.close()
            pair.pinning.restore()
            if pair.samples is not None:
                pair.samples.close()
            pair.lease.release()
            self._waited_share = waited_share(worker.child.pid)
            self._skipped |= worker.reference.skipped
            self._keep_worst(pair.verification.errors)
        return pair

    def load(self) -> None:
        """Import the candidate in its worker and construct it."""
        self._pair.samples = self._prepare_samples()
        program = self._pair.program
        self._pair.worker.load(self._candidate.program if program is None else program.source)

    def measure_memory(self) -> None:
        """Measure, once, what calls of the module take that is delivered, and check that it is allowed.

        In a process in which it has made no call yet.
        """
        if self._memory is not None:
            return
        worker, reference = self._pair.worker, self._pair.worker.reference
        draws = [draw for key in reference.timed_keys if (draw := reference.draw(key))]
        self._memory = peak_memory(worker, draws)
        for position, output in worker.looked:
            draw = draws[position % len(draws)]
            self._pair.verification.check_outputs(draw, output, " in a call whose memory is measured")
        require_memory(self._memory, self._settings.policy)

    def time_alone(self) -> None:
        """Time both sides with one thread, in processes that have passed all other checks."""
        pair, reference, count = self._pair, self._pair.worker.reference, self._settings.n_threads
        is_quick = count > 1 and reference.eager_ms * count <= ALONE_MS
        if not self._is_timed_alone.setdefault(reference.workload.name, is_quick):
            return
        pair.worker.use_threads(1)
        reference.call("use_threads", count=1)
        self._take(pair.lease, pair.worker.check_idle)
        alone = self._measure_alone()
        if alone.cores_used > ONE_CORE:  # it has not done as it was asked: both sides are held on one core
            pids = (*family_of(pair.worker.child.pid), reference.child.pid)
            pair.pinning.pin([thread for pid in pids for thread in worked_s(pid)], most_cores=1)
            alone = self._measure_alone()
        if alone.cores_used > ONE_CORE:
            detail = f"held on one core, it keeps {alone.cores_used:.1f} cores busy"
            raise Failure(Status.REJECTED, detail, check=Check.CLOCK, is_by_clock=True)
        alone.check_clocks()
        self._correct(alone)
        alone.check_late()
        pair.worker.check_untampered()

    def _measure_alone(self) -> Measurement:
        pair = self._pair
        pair.alone = Measurement(
            pair.worker, pair.verification, pair.draws, self._new_exchange(), self._settings, is_final=True,
            pinning=None,
        )  # fmt: skip
        pair.alone.take(ONE_THREAD_BASELINES)
        return pair.alone

    def _prepare_samples(self) -> CodeSamples | None:
        is_forbidden = self._settings.policy.library_calls is LibraryCalls.FORBIDDEN
        worker = self._pair.worker
        if not is_forbidden or worker.reference.device.is_apart:
            return None
        try:
            return CodeSamples(worker.child.pid)
        except OSError as error:
            self._notes[f"whose code timed calls ran was not measured: {error}"] = None
            return None

    def verify(self) -> None:
        """Compare with the oracle on the samples of this pair."""
        pair, is_first = self._pair, self._pair.turn == 0
        draws = _draws(pair.worker.reference, is_timed_only=not is_first)
        pair.verification.check_all(draws, is_shifted=is_first)
        if is_first and pair.verification.notes:
            self._log += f"the candidate changed in its process: {'; '.join(pair.verification.notes)}\n"

    def time(self) -> None:
        """Time the candidate and the baselines alternately; note missing baselines in the log."""
        pair, reference = self._pair, self._pair.worker.reference
        _ = self._floors  # what is at work to make them must have ended before anything is timed
        for name in pair.baselines:
            reference.prepare_baseline(name)
        if self._take(pair.lease, pair.worker.check_idle):
            pair.worker.watch.reset()  # what it did in a long wait is not held against it
        pair.draws = [draw for key in reference.timed_keys if (draw := reference.draw(key))]
        self._measure()
        for name in pair.baselines if pair.turn == 0 else ():
            if why := reference.prepare_baseline(name):
                self._log += f"baseline {name} is missing: {why}\n"

    def _measure(self) -> None:
        pair = self._pair
        pair.exchange = self._new_exchange()
        pair.measurement = Measurement(
            pair.worker, pair.verification, pair.draws, pair.exchange, self._settings,
            is_final=self._is_final, pinning=pair.pinning,
        )  # fmt: skip
        with pair.samples or contextlib.nullcontext():
            pair.measurement.take(pair.baselines)

    def _new_exchange(self) -> WeightExchange:
        """Return turns of weights that begin with the constructed ones, as a measurement does."""
        is_frozen = self._settings.policy.weights is Weights.FROZEN
        return WeightExchange(self._pair.worker.reference, is_frozen=is_frozen)

    def time_again(self) -> None:
        """In a final, in every second pair by lot, time once more after the replay; these times count.

        A candidate that remembers results until it has been replayed, or from then on, is then fast in half
        of all processes, and so not faster.
        """
        pair, first = self._pair, self._pair.timing
        is_quick = pair.worker.reference.eager_ms <= AGAIN_MS
        if not self._is_final or not is_quick or (pair.turn + self._lot) % 2:
            return
        first.check_late()
        first.close()
        self._measure()
        pair.timing.factor = first.factor
        self.check_clocks()

    def check_clocks(self) -> None:
        """Compare the clocks of parent, worker and device over the timed calls."""
        self._pair.timing.check_clocks()

    def check_idle(self) -> None:
        """Check that the candidate's process did no work while no command ran."""
        self._pair.worker.check_idle()

    def replay(self) -> None:
        """Call the candidate on inputs that it has never seen, keeping every output."""
        pair = self._pair
        pair.worker.watch.reset()
        samples = pair.timing.samples()
        eager_ms = samples.baselines.get(EAGER, ())
        size = self._settings.replay_size
        missing = Replay(pair.worker, pair.draws, pair.weights, samples.candidate, eager_ms, size).check()
        self._notes |= {missing: None} if missing else {}

    def renew(self) -> None:
        """Call the candidate on values that change meanwhile, and correct its times by what that costs."""
        self._correct(self._pair.timing)

    def _correct(self, measurement: Measurement) -> None:
        """Correct times by what new values cost; where no other process has found that, others look first."""
        pair = self._pair
        samples = measurement.samples()
        timed_s, eager_s = (
            statistics.median(ms) / 1e3 if ms else None
            for ms in (samples.candidate, samples.baselines.get(EAGER, ()))
        )
        if timed_s:
            renewal = Renewal(pair.worker, pair.draws, measurement.weights, timed_s)
            measurement.factor = renewal.factor(eager_s)
            workload = pair.worker.reference.workload.name
            self._factors[workload, measurement is pair.alone].append(measurement.factor)
        if measurement.factor > 1.0:
            found = (
                f"{NEW_VALUES}{measurement.factor:.1f}: timed calls see the same values "
                "again, and on new values its calls take longer"
            )
            if not self._is_seen_enough(NEW_VALUES):
                raise Failure(Status.REJECTED, found, check=Check.REPLAY, is_by_clock=True)
            self._notes[found] = None

    def check_untampered(self) -> None:
        """Check that the candidate left foreign functions and global state unchanged."""
        self._pair.worker.check_untampered()

    def check_late(self) -> None:
        """Check outputs and inputs once more after all calls; then remove pins and give the device back."""
        self._pair.timing.check_late()
        self._pair.timing.close()
        self._pair.lease.release()

    def check_own_code(self) -> None:
        """Check that timed calls were computed by the candidate's own code, where the policy asks for it."""
        pair = self._pair
        if pair.samples is None:
            return
        name = self._library.name if self._library else ""
        sampled = pair.samples.addresses()
        code = {pid: mapped_code(pid) for pid in {pid for pid, _ in sampled}}
        owners = [owner_of(address, code[pid], name) for pid, address in sampled]
        if problem := own_code_problem(owners, pair.worker.timed_cpu_s):
            raise Failure(Status.REJECTED, problem, check=Check.OWN_KERNEL)

    def check_other_weights(self) -> None:
        """Where weights are frozen: check the candidate in a second process that has other weights."""
        reference = self._pair.worker.reference
        if self._settings.policy.weights is not Weights.FROZEN or not reference.layout.has_weights:
            return
        worker = CandidateProcess(self._launcher, self._settings, reference, self._library)
        try:
            worker.load(self._candidate.program)
            verification = Verification(worker)
            for draw in reference.draws_of_another_process():
                verification.check(draw)
        finally:
            worker.close()

    def check_library_use(self) -> None:
        """Check what the candidate computes itself and what it leaves to libraries, by the policy."""
        pair, reference = self._pair, self._pair.worker.reference
        draws = pair.draws or [draw for key in reference.timed_keys if (draw := reference.draw(key))]
        self._check_library_use(pair.worker, draws[0])

    def check_share(self) -> None:
        """Verify on this pair's share of the other input distributions."""
        pair, verification = self._pair, Verification(self._pair.worker)
        reference = pair.worker.reference
        try:
            for key in share_of(reference.other_keys, pair.turn, pair.order, LOOKS[0] - 1):
                draw = reference.draw(key)
                if draw is not None:
                    verification.check(draw)
        finally:
            self._keep_worst(verification.errors)

    def check_floor(self) -> None:
        """Check that the machine can be as fast as the measured latency of a workload."""
        result = self._result = self._floor_check.check(self._result, self._floor)
        if result.floor_was_ms is not None:
            self._notes[
                f"our error: by the peaks measured before, workload {result.workload} takes at least "
                f"{result.floor_was_ms:.4g} ms; measured again, {result.floor_ms:.4g} ms"
            ] = None

    def _check_library_use(self, worker: CandidateProcess, draw: InputSample) -> None:
        self._library_calls |= check_library_use(
            self._settings.policy, worker, self._candidate.program, draw, self._library,
            lambda library: CandidateProcess(self._launcher, self._settings, worker.reference, library),
        )  # fmt: skip

    def _keep_worst(self, errors: Sequence[NumericalError]) -> None:
        worst = {(e.workload, e.family, e.output): e for e in self._errors}
        for error in errors:
            key = error.workload, error.family, error.output
            if key not in worst or error.error > worst[key].error:
                worst[key] = error
        self._errors = list(worst.values())

    def _process_spread(self, reference: ReferenceProcess) -> float:
        is_large = reference.layout.args_bytes + reference.output_bytes > CACHE_BYTES
        return self._settings.large_process_spread if is_large else self._settings.process_spread

    @contextlib.contextmanager
    def _phase(self, stage: Stage) -> Iterator[None]:
        self._stage = stage
        begin, waited_s = time.perf_counter(), self._waited_s
        try:
            yield
        finally:
            spent = time.perf_counter() - begin - (self._waited_s - waited_s)
            self._phases_s[stage.value] = self._phases_s.get(stage.value, 0.0) + spent


def _kind_of(failure: Failure) -> str:
    """Return in a word what kind of finding it is: a busy machine may cause one of each."""
    return NEW_VALUES if failure.detail.startswith(NEW_VALUES) else str(failure.check)


def _draws(reference: ReferenceProcess, *, is_timed_only: bool) -> Iterator[InputSample]:
    """Yield the session's samples, then an unseen one that is made after the candidate was loaded."""
    for key in reference.timed_keys if is_timed_only else (*reference.timed_keys, *reference.other_keys):
        draw = reference.draw(key)
        if draw is not None:
            yield draw
    if not is_timed_only:
        yield reference.fresh_draw()


STAGES = (
    _Step(Stage.GUARD, "guard", _When.ONCE, Judging.guard),
    _Step(Stage.BUILD, "build", _When.ONCE, Judging.build),
    _Step(Stage.LOAD, "load", _When.EACH, Judging.load),
    _Step(Stage.VERIFY, "peak memory", _When.ORDINARY, Judging.measure_memory),
    _Step(Stage.VERIFY, "verify", _When.EACH, Judging.verify),
    _Step(Stage.TIME, "time", _When.EACH, Judging.time, needs_timing=True),
    _Step(Stage.TIME, "clocks", _When.EACH, Judging.check_clocks, needs_timing=True),
    _Step(Stage.REPLAY, "idle work after timing", _When.EACH, Judging.check_idle),
    _Step(Stage.REPLAY, "replay", _When.EACH, Judging.replay, needs_timing=True),
    _Step(Stage.REPLAY, "new values", _When.EACH, Judging.renew, needs_timing=True),
    _Step(Stage.TIME, "time again", _When.EACH, Judging.time_again, needs_timing=True),
    _Step(Stage.REPLAY, "idle work after replay", _When.EACH, Judging.check_idle),
    _Step(Stage.REPLAY, "tamper", _When.EACH, Judging.check_untampered),
    _Step(Stage.REPLAY, "late outputs", _When.EACH, Judging.check_late, needs_timing=True),
    _Step(Stage.REPLAY, "own code", _When.EACH, Judging.check_own_code, needs_timing=True),
    _Step(Stage.REPLAY, "library use", _When.FIRST, Judging.check_library_use),
    _Step(Stage.VERIFY, "other weights in another process", _When.FIRST, Judging.check_other_weights),
    _Step(Stage.VERIFY, "share of the other input distributions", _When.LATER, Judging.check_share),
    _Step(Stage.TIME, "one thread", _When.ORDINARY, Judging.time_alone),
    _Step(Stage.TIME, "floor", _When.RESULT, Judging.check_floor),
)
"""All stages and checks in order; the first check that fails ends the evaluation. A search evaluation has one
pair of processes for a workload. A final has one, then several pairs of ordinary processes; on a device,
where there are no ordinary ones, it has several."""
