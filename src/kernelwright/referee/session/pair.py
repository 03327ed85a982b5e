"""One pair of a host and a worker, and the stages that run in it."""

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.core.evaluation import Check, Status
from kernelwright.core.policy import LibraryCalls, Weights
from kernelwright.machine.code_samples import CodeSamples
from kernelwright.referee.checks.library_use import check_library_use
from kernelwright.referee.checks.own_code import mapped_code, own_code_problem, owner_of
from kernelwright.referee.checks.renewed import Renewal
from kernelwright.referee.checks.replay import Replay
from kernelwright.referee.checks.verify import Verification
from kernelwright.referee.sandbox.processes import family_of
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.confirmation import NEW_VALUES, Confirmation
from kernelwright.referee.session.context import JudgingContext
from kernelwright.referee.session.dossier import Dossier
from kernelwright.referee.session.input_samples import InputSample, share_of
from kernelwright.referee.session.ordinary import (
    ONE_THREAD_BASELINES,
    TimedProgram,
    peak_memory,
    require_memory,
)
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.weight_exchange import WeightExchange
from kernelwright.referee.timing.measure import EAGER, Measurement
from kernelwright.referee.timing.pinning import Pinning, waited_share, worked_s
from kernelwright.referee.timing.statistics import LOOKS, Samples

CACHE_BYTES = 16 << 20
"""Inputs and outputs larger than this together do not stay in the caches of a usual machine."""
ALONE_MS = 2000.0
"""Nothing is timed with one thread where a call of the reference might then take longer than this."""
AGAIN_MS = 200.0
"""Slower references are not timed again after the replay; the replay's factor bounds what that would show."""
DISTURBED = 1.6
"""Beside a candidate the reference takes this many times as long: it was slowed down."""
CLEARLY_FASTER = 1.3
"""What is faster than eager alone by this factor has no need to slow it down."""
ONE_CORE = 1.3
"""A process that keeps more cores than this busy works with more than one thread; accounts lag a little."""

NOT_READ = "outputs are the worker's word: this system does not let other processes read them"
"""A note on every verdict there."""


@dataclass(frozen=True)
class PairTimes:
    """The times that one pair of processes gave."""

    all_threads: Samples
    one_thread: Samples | None
    """None where nothing was timed with one thread."""
    spread: float
    """By how much such times differ from process to process, relative to them."""


class ProcessPair:
    """A host and a worker, with the state of their stages. ``close`` ends neither of the two processes."""

    def __init__(
        self,
        context: JudgingContext,
        dossier: Dossier,
        confirmation: Confirmation,
        worker: CandidateProcess,
        *,
        turn: int = 0,
        order: int = 0,
        program: TimedProgram | None = None,
    ) -> None:
        """Set up; no stage has run.

        Args:
            context: What the evaluation is given.
            dossier: Gets what the stages find.
            confirmation: Knows what earlier pairs have shown.
            worker: Beside its reference, which is the host.
            turn: Number of the pair among those of its workload, from 0.
            order: Secret seed that decides which of the later pairs gets which input distributions.
            program: What an ordinary process loads; None: the candidate's program.
        """
        self.context, self.dossier, self.confirmation = context, dossier, confirmation
        self.worker, self.turn, self.order, self.program = worker, turn, order, program
        self._pinning = Pinning()
        self._verification = Verification(worker, self._pinning)
        self._lease = context.lease()
        """Held from the first timed call to the last."""
        self._draws: Sequence[InputSample] = ()
        """The samples whose inputs are timed."""
        self._measurement: Measurement | None = None
        self._exchange: WeightExchange | None = None
        self._code: CodeSamples | None = None
        """Where the worker spends its time, when the policy wants it known and this machine tells."""
        self._alone: Measurement | None = None
        """The measurement with one thread, in an ordinary process."""

    def close(self) -> None:
        """Undo pins, give the device back, and tell the dossier what was found whatever the outcome."""
        if self._alone is not None:
            self._alone.close()
        self._pinning.restore()
        if self._code is not None:
            self._code.close()
        self._lease.release()
        self.confirmation.waited_share = waited_share(self.worker.child.pid)
        self.dossier.families_skipped |= self.worker.reference.skipped
        self.dossier.keep_worst(self._verification.errors)

    @property
    def times(self) -> PairTimes:
        """The times, after all stages."""
        settings, reference = self.context.settings, self.worker.reference
        is_large = reference.layout.args_bytes + reference.output_bytes > CACHE_BYTES
        return PairTimes(
            all_threads=self._timing.samples(),
            one_thread=self._alone.samples() if self._alone else None,
            spread=settings.large_process_spread if is_large else settings.process_spread,
        )

    @property
    def _weights(self) -> WeightExchange:
        """Which weights come next. To ask for it before timing is an error in this file."""
        assert self._exchange is not None
        return self._exchange

    @property
    def _timing(self) -> Measurement:
        """The measurement. To ask for it before it was taken is an error in this file."""
        assert self._measurement is not None
        return self._measurement

    def load(self) -> None:
        """Import the candidate in its worker and construct it."""
        self._code = self._sample_code()
        self.worker.load(self.context.candidate.program if self.program is None else self.program.source)
        if not self.worker.child.is_readable and not self.worker.reference.device.is_apart:
            self.dossier.note(NOT_READ)

    def _sample_code(self) -> CodeSamples | None:
        is_forbidden = self.context.settings.policy.library_calls is LibraryCalls.FORBIDDEN
        if not is_forbidden or self.worker.reference.device.is_apart:
            return None
        try:
            return CodeSamples(self.worker.child.pid)
        except OSError as error:
            self.dossier.note(f"whose code timed calls ran was not measured: {error}")
            return None

    def measure_memory(self) -> None:
        """Measure, once, what calls of the module take that is delivered, and check that it is allowed.

        In a process in which it has made no call yet.
        """
        if self.dossier.memory is not None:
            return
        draws = _timed_draws(self.worker.reference)
        memory = self.dossier.memory = peak_memory(self.worker, draws)
        for position, output in self.worker.looked:
            draw = draws[position % len(draws)]
            self._verification.check_outputs(draw, output, " in a call whose memory is measured")
        require_memory(memory, self.context.settings.policy, self.context.candidate.role)

    def verify(self) -> None:
        """Compare with the oracle on the samples of this pair."""
        is_first = self.turn == 0
        draws = _draws(self.worker.reference, is_timed_only=not is_first)
        self._verification.check_all(draws, is_shifted=is_first)
        if is_first and self._verification.notes:
            changes = "; ".join(self._verification.notes)
            self.dossier.log += f"the candidate changed in its process: {changes}\n"

    def time(self) -> None:
        """Time the candidate and the baselines alternately; note which baselines are missing."""
        reference = self.worker.reference
        self.context.settle()
        for name in self.context.baselines:
            reference.prepare_baseline(name)
        if self.dossier.take(self._lease, self.worker.check_idle):
            self.worker.watch.reset()  # what it did in a long wait is not held against it
        self._draws = _timed_draws(reference)
        self._measure()
        for name in self.context.baselines if self.turn == 0 else ():
            if why := reference.prepare_baseline(name):
                self.dossier.missing_baselines[name] = why
                self.dossier.note(f"baseline {name} is missing: {why}")

    def _measure(self) -> None:
        self._exchange = self._new_exchange()
        self._measurement = Measurement(
            self.worker, self._verification, self._draws, self._exchange, self.context.settings,
            is_final=self.context.is_final, pinning=self._pinning,
        )  # fmt: skip
        with self._code or contextlib.nullcontext():
            self._measurement.take(self.context.baselines)

    def _new_exchange(self) -> WeightExchange:
        """Return turns of weights that begin with the constructed ones, as a measurement does."""
        is_frozen = self.context.settings.policy.weights is Weights.FROZEN
        return WeightExchange(self.worker.reference, is_frozen=is_frozen)

    def check_clocks(self) -> None:
        """Compare the clocks of parent, worker and device over the timed calls."""
        self._timing.check_clocks()

    def check_idle(self) -> None:
        """Check that the candidate's process did no work while no command ran."""
        self.worker.check_idle()

    @cached_property
    def _is_behind(self) -> bool:
        """Whether a search has no use for a replay: another candidate leads."""
        lead, workload = self.context.lead, self.worker.reference.workload.name
        is_behind = lead is not None and lead.is_behind(workload, self._timing.samples())
        (self.dossier.not_replayed.add if is_behind else self.dossier.not_replayed.discard)(workload)
        return is_behind

    def replay(self) -> None:
        """Call the candidate on inputs that it has never seen, keeping every output."""
        self.worker.watch.reset()
        if self._is_behind:
            return
        samples = self._timing.samples()
        eager_ms = samples.baselines.get(EAGER, ())
        size = self.context.settings.replay_size
        replay = Replay(self.worker, self._draws, self._weights, samples.candidate, eager_ms, size)
        if missing := replay.check():
            self.dossier.note(missing)

    def renew(self) -> None:
        """Call the candidate on values that change meanwhile, and correct its times by what that costs."""
        if not self._is_behind:
            self._correct(self._timing)

    def _correct(self, measurement: Measurement) -> None:
        """Correct times by what new values cost; where no other process has found that, others look first."""
        samples = measurement.samples()
        timed_s, eager_s = (
            statistics.median(ms) / 1e3 if ms else None
            for ms in (samples.candidate, samples.baselines.get(EAGER, ()))
        )
        if timed_s:
            renewal = Renewal(self.worker, self._draws, measurement.weights, timed_s)
            measurement.factor = renewal.factor(eager_s)
            workload = self.worker.reference.workload.name
            self.dossier.factors[workload, measurement is self._alone].append(measurement.factor)
        if measurement.factor > 1.0:
            found = (
                f"{NEW_VALUES}{measurement.factor:.1f}: its calls take longer on new values, or when they "
                "come one at a time, than they took when they were timed"
            )
            if not self.confirmation.is_seen_enough(NEW_VALUES):
                raise Failure(Status.REJECTED, found, check=Check.REPLAY, is_by_clock=True)
            self.dossier.note(found)

    @property
    def _is_timed_again(self) -> bool:
        """The lot of this pair: another timing after the replay, or new values with one thread."""
        return (self.turn + self.dossier.lot) % 2 == 0

    def time_again(self) -> None:
        """In a final, in every second pair by lot, time once more after the replay; these times count.

        A candidate that remembers results until it has been replayed, or from then on, is then fast in half
        of all processes, and so not faster.
        """
        first = self._timing
        is_quick = self.worker.reference.eager_ms <= AGAIN_MS
        if not self.context.is_final or not is_quick or not self._is_timed_again:
            return
        first.check_late()
        first.close()
        self._measure()
        self._timing.factor = first.factor
        self.check_clocks()

    def check_untampered(self) -> None:
        """Check that the candidate left foreign functions and global state unchanged."""
        self.worker.check_untampered()

    def check_late(self) -> None:
        """Check outputs and inputs once more after all calls; then remove pins and give the device back."""
        self._timing.check_late()
        self._timing.close()
        self._lease.release()

    def check_undisturbed(self) -> None:
        """On a GPU, end the worker and time the reference once more, alone.

        A device works on what a candidate gave it, in the reference's turn too, without processor time.
        """
        if not self.worker.reference.device.has_driver:
            return
        self.worker.close()
        self.dossier.take(self._lease)
        alone_ms = self._timing.alone_ms(EAGER)
        self._lease.release()
        if alone_ms is not None and (problem := disturbance(self._timing.samples(), alone_ms)):
            raise Failure(Status.REJECTED, problem, check=Check.CLOCK, is_by_clock=True)

    def check_own_code(self) -> None:
        """Check that timed calls were computed by the candidate's own code, where the policy asks for it."""
        if self._code is None:
            return
        name = self.dossier.library.name if self.dossier.library else ""
        sampled = self._code.addresses()
        code = {pid: mapped_code(pid) for pid in {pid for pid, _ in sampled}}
        owners = [owner_of(address, code[pid], name) for pid, address in sampled]
        if problem := own_code_problem(owners, self.worker.timed_cpu_s):
            raise Failure(Status.REJECTED, problem, check=Check.OWN_KERNEL)

    def check_library_use(self) -> None:
        """Check what the candidate computes itself and what it leaves to libraries, by the policy."""
        reference = self.worker.reference
        draws = self._draws or _timed_draws(reference)
        self.dossier.library_calls |= check_library_use(
            self.context.settings.policy, self.worker, self.context.candidate.program, draws[0],
            self.dossier.library, lambda library: self.context.worker(reference, library),
        )  # fmt: skip

    def check_other_weights(self) -> None:
        """Where weights are frozen: check the candidate in a second process that has other weights."""
        reference = self.worker.reference
        is_frozen = self.context.settings.policy.weights is Weights.FROZEN
        if not is_frozen or not reference.layout.has_weights:
            return
        worker = self.context.worker(reference, self.dossier.library)
        with contextlib.closing(worker):
            worker.load(self.context.candidate.program)
            verification = Verification(worker)
            for draw in reference.draws_of_another_process():
                verification.check(draw)

    def check_share(self) -> None:
        """Verify on this pair's share of the other input distributions."""
        reference, verification = self.worker.reference, Verification(self.worker)
        try:
            for key in share_of(reference.other_keys, self.turn, self.order, LOOKS[0] - 1):
                draw = reference.draw(key)
                if draw is not None:
                    verification.check(draw)
        finally:
            self.dossier.keep_worst(verification.errors)

    def time_alone(self) -> None:
        """Time both sides with one thread, in processes that have passed all other checks."""
        reference, count = self.worker.reference, self.context.settings.n_threads
        is_quick = count > 1 and reference.eager_ms * count <= ALONE_MS
        if not self.dossier.is_timed_alone.setdefault(reference.workload.name, is_quick):
            return
        self.worker.use_threads(1)
        reference.call("use_threads", count=1)
        self.dossier.take(self._lease, self.worker.check_idle)
        alone = self._measure_alone()
        if alone.cores_used > ONE_CORE:  # it has not done as it was asked: both sides are held on one core
            pids = (*family_of(self.worker.child.pid), reference.child.pid)
            self._pinning.pin([thread for pid in pids for thread in worked_s(pid)], most_cores=1)
            alone = self._measure_alone()
        if alone.cores_used > ONE_CORE:
            detail = f"held on one core, it keeps {alone.cores_used:.1f} cores busy"
            raise Failure(Status.REJECTED, detail, check=Check.CLOCK, is_by_clock=True)
        alone.check_clocks()
        if not self._is_timed_again:
            self._correct(alone)
        alone.check_late()
        self.worker.check_untampered()

    def _measure_alone(self) -> Measurement:
        self._alone = Measurement(
            self.worker, self._verification, self._draws, self._new_exchange(), self.context.settings,
            is_final=True, pinning=None,
        )  # fmt: skip
        self._alone.take(ONE_THREAD_BASELINES)
        return self._alone


def disturbance(samples: Samples, alone_ms: float) -> str | None:
    """Say that eager was slowed down, where the candidate is hardly faster than eager alone; else None."""
    beside_ms = statistics.median(samples.baselines.get(EAGER) or [0.0])
    is_faster = CLEARLY_FASTER * statistics.median(samples.candidate) < alone_ms
    if is_faster or beside_ms <= DISTURBED * alone_ms:
        return None
    return (
        f"eager takes {beside_ms:.3g} ms a call beside the candidate's process, and {alone_ms:.3g} ms when "
        "that has ended"
    )


def _timed_draws(reference: ReferenceProcess) -> list[InputSample]:
    """Return the session's samples whose inputs are timed."""
    return [draw for key in reference.timed_keys if (draw := reference.draw(key))]


def _draws(reference: ReferenceProcess, *, is_timed_only: bool) -> Iterator[InputSample]:
    """Yield the session's samples, then an unseen one that is made after the candidate was loaded."""
    for key in reference.timed_keys if is_timed_only else (*reference.timed_keys, *reference.other_keys):
        draw = reference.draw(key)
        if draw is not None:
            yield draw
    if not is_timed_only:
        yield reference.fresh_draw()
