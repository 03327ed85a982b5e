"""Times candidate and baselines alternately with the parent's clock, and checks what timed calls return."""

import contextlib
import itertools
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kernelwright.core.evaluation import Check, Status
from kernelwright.referee.checks.moved import check_moved
from kernelwright.referee.checks.tolerance import distance_between
from kernelwright.referee.checks.verify import PERTURB, Verification, matches, still_matches
from kernelwright.referee.session.calls import MOVABLE_CALLS
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample, WeightState
from kernelwright.referee.session.launcher import Child
from kernelwright.referee.session.moved_weights import LiveMove, MovedWeights
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.shared_memory import TensorMemory, slot_nbytes
from kernelwright.referee.session.weight_exchange import WeightExchange
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.pinning import Pinning, Spell, spell_of, threads_to_pin
from kernelwright.referee.timing.statistics import LOOKS, MIN_ROUNDS, Samples, is_enough
from kernelwright.referee.worker.layouts import Slot, arena_of

EAGER = "eager"
"""The reference as it is, the usual baseline."""
MAX_CALLS = 2000
MAX_ROUNDS = 25
WARM_UP_CALLS, WARM_UP_S, SETTLED = 24, 2.0, 1.25
"""Most calls and seconds of a warm-up. It ends earlier when the last calls are within this factor of the
fastest."""
FEW_FAULTS, GIVEN_BACK = 4, 0.9
"""A process with at most this many page faults in its last calls has all the memory that it needs. So has one
that gives this share of it back: an ordinary process takes large outputs anew in every call."""
HINDERED = 1.3
"""If pinning makes a side this many times as slow, all pins are removed. Such a side asks how many cores it
may use, is told one, and then uses one."""
QUICK_S = 0.05
"""A side with faster calls than this makes one call that is not counted before every sample."""
CLOCK_LOW, CLOCK_HIGH = 0.6, 1.15
"""Bounds on the worker's own clock, as medians over samples. The claimed time must be at least ``CLOCK_LOW``
times the least that its processor time allows, and at most ``CLOCK_HIGH`` times what the parent saw."""
CLOCK_SLACK_S = 0.0005
"""Difference between the clocks that is always allowed: waking up on a busy machine."""
SHORT, N_RECALIBRATIONS = 0.25, 2
"""If the samples last less than this share of the intended time, all samples are taken again with more calls,
at most this many times."""
LONG_BATCHES = 20
"""Calls that take more than this many times the intended length of a sample count as slow, not as
interrupted."""
CHECK_ALL_BYTES, CHECKED = 8 << 20, 0.4
"""Outputs of up to this size are checked after every sample, larger ones after this share, drawn by lot."""
CUT_SHORT = 0.4
"""Share of the candidate's series that end at a random call, have outputs compared and do not count. Only the
outputs of the last calls of a series can be compared, so nobody may know which calls these will be."""
SPOILT = 0.3
"""Share of the series that do not count in which outputs are written to while the calls go on."""
UNCOUNTED = 0.25
"""Share of the rounds with a further sample that does not count, as timed or as replayed."""
POISONED, UNPINNED = 0.5, 0.3
"""Shares of these samples in which memory is filled, and in which threads are not pinned."""
OTHER_MS = 30.0
"""References slower than this get no further samples on inputs of other distributions."""
STATE_CALLS, STATE_S, STATE_NEAR = 40, 0.05, 1e-3
"""At the end, both sides make the same calls, at most this many and for this long, and their buffers may
differ by this scaled distance."""
LONG_STATE_S = 0.15
"""They do so twice more for up to as many calls as a timed series has, as far as neither takes longer: in the
first and in the second half of that range."""
N_LOOKED, LOOK_MORE_BYTES = 3, 1 << 20
"""Outputs of a sample that are compared, chosen after its calls; one where outputs are larger than this."""
N_ALONE = 5
"""Samples of a baseline when the candidate's process has ended."""
MOVES_S, MOVES_CALLS = 0.03, 10
"""So long, or for as many calls of the reference, a measurement prepares changes of weights in the middle of
series, besides those that the session has."""
SWAP_ALL_BYTES = 16 << 20
"""Two input sets of up to this size swap addresses before every round, larger ones before every sixth."""


@dataclass
class _Side:
    """One callable that is timed: the candidate or a baseline."""

    name: str
    callable: str
    """Empty for the candidate."""
    calls: int = 1
    per_call_s: float = 0.0
    is_quick: bool = False
    """Calls are so short that every sample can begin with a call that is not counted."""
    samples_s: list[float] = field(default_factory=list)
    """Seconds of each sample by the parent's clock, the round-trip overhead of the command included."""


@dataclass(frozen=True)
class Clocks:
    """Seconds of one sample of the candidate by several clocks."""

    claimed_s: float
    """As reported by the worker."""
    seconds: float
    """By the parent's clock, less the round-trip overhead."""
    cpu_s: float
    """Processor time of the worker, from the operating system."""
    events_s: float | None = None
    """By events on the device, where there is one."""


class Measurement:
    """One alternating measurement of one workload."""

    def __init__(
        self, worker: CandidateProcess, verification: Verification, draws: Sequence[InputSample],
        weights: WeightExchange, settings: RefereeSettings, *, is_final: bool, pinning: Pinning | None,
    ) -> None:  # fmt: skip
        """``pinning``: of the candidate's process, as verification left it; None: no thread is pinned."""
        self._contestant, self._verification = worker, verification
        self._reference: ReferenceProcess = worker.reference
        self._draws = draws
        self._weights = weights
        self._settings, self._is_final = settings, is_final
        self._rng = random.Random()
        names = self._rng.sample(list(worker.slots), len(worker.slots))
        self._place = {name: draws[i % len(draws)] for i, name in enumerate(names)}
        self._sets = self._reference.set_names
        self._written = _light_buffers(self._reference, draws[0])
        self._other_keys = [key for key in self._reference.other_keys if key.state in self._reference.states]
        self._replayed_at = self._rng.randrange(MIN_ROUNDS)
        """Of the first rounds, the one with a further sample as replayed; the others have other inputs."""
        self._early: InputSample | None = None
        self._early_round = self._rng.randrange(MIN_ROUNDS)
        """The round whose first output of the candidate's is kept until the end."""
        self._n_looked = N_LOOKED if self._reference.output_bytes <= LOOK_MORE_BYTES else 1
        self._clocks: list[Clocks] = []
        self._pinning, self._is_pinned = pinning or Pinning(), pinning is not None
        self._round_trip_s = 0.0
        self._asking_s: list[float] = []
        self._all: list[_Side] = []
        self._unmet: MovedWeights | None = None
        """How weights change before a sample of one call; no call has met it."""
        self._moves_s = max(MOVES_S, MOVES_CALLS * self._reference.eager_ms / 1e3)
        """Seconds left to find out what calls return when weights change in the middle of a series."""
        self.factor = 1.0
        """What the candidate's times are multiplied by, because calls on new values take it longer."""

    def take(self, baselines: Sequence[str]) -> None:
        """Take all samples; raises Failure when a timed call returns a wrong output.

        Threads stay pinned until ``close``.
        """
        self._pinning.restore()
        self._prepare()
        candidate = _Side("candidate", "")
        self._all = sides = [candidate]
        for name in baselines:
            if self._reference.prepare_baseline(name) is None:
                sides.append(_Side(name, name))
        self._reference.load_state(self._weights.state)
        for side in sides:
            self._calibrate(side)
        self._pin(sides)
        self._take_rounds(sides)
        for _ in range(N_RECALIBRATIONS):
            if not self._is_short(candidate):
                break
            self._calibrate(candidate)
            self._take_rounds(sides)

    def samples(self) -> Samples:
        """Return the samples, in milliseconds per call."""
        return Samples(
            candidate=tuple(ms * self.factor for ms in self._ms(self._all[0])),
            baselines={side.name: tuple(self._ms(side)) for side in self._all[1:]},
            calls={side.name: side.calls for side in self._all},
            factor=self.factor,
        )

    @property
    def weights(self) -> WeightState:
        """The weights that were loaded last."""
        return self._weights.state

    @property
    def cores_used(self) -> float:
        """How many cores the candidate's timed calls kept busy, by the system's account."""
        seconds = sum(clocks.seconds for clocks in self._clocks)
        return sum(clocks.cpu_s for clocks in self._clocks) / seconds if seconds > 0 else 0.0

    def check_clocks(self) -> None:
        """Raise Failure when the worker's clock, the parent's and a device's events disagree."""
        self._check_clocks()
        if problem := events_problem(self._clocks):
            raise Failure(Status.REJECTED, problem, check=Check.CLOCK, is_by_clock=True)

    def check_late(self) -> None:
        """Restore the timed inputs and check outputs and inputs once more; raises Failure."""
        self._check_unwritten()
        self._contestant.load_state(self._weights.state)  # the replay has had its own turns
        for name, draw in self._place.items():
            self._fill(name, self._weights.draw(draw))
        self._check_late()
        self._check_state()

    def alone_ms(self, name: str) -> float | None:
        """Return what a call of a baseline takes now, in milliseconds; None where it was not timed."""
        side = next((side for side in self._all[1:] if side.name == name), None)
        if side is None:
            return None
        seconds = []
        for _ in range(N_ALONE):
            self._wake(side)
            seconds.append(self._without(self._round_trip_s, self._batch(side, side.calls)))
        return statistics.median(seconds) * 1e3 / side.calls

    def close(self) -> None:
        """Remove the pins of threads; a second call does nothing."""
        self._pinning.restore()

    def _prepare(self) -> None:
        for name, draw in self._place.items():
            self._fill(name, draw)
        self._contestant.load_state(self._weights.state)
        trips = []
        with self._contestant.held_back():
            for _ in range(20):  # measured with the host: a candidate could be slow here to look fast later
                trips.append(self._reference.round_trip_s())
        self._round_trip_s = min(trips)

    def _fill(self, name: str, draw: InputSample) -> None:
        self._place[name] = draw
        self._contestant.fill(name, draw.inputs)
        self._reference.fill(name, draw.inputs)

    def _warm_up(self, side: _Side) -> None:
        """Call until the process takes no new memory and the latency has settled.

        A fresh page can cost more than the work on it, and a heap may need some calls to reach its size.
        """
        child = self._child(side)
        times: list[float] = []
        faults, resident = [child.minor_faults()], [child.resident_pages()]
        while len(times) < WARM_UP_CALLS and sum(times) < WARM_UP_S:
            times.append(self._without(self._round_trip_s, self._batch(side, calls=1)))
            faults.append(child.minor_faults())
            resident.append(child.resident_pages())
            taken, kept = (pages[-1] - pages[-min(4, len(pages))] for pages in (faults, resident))
            is_whole = len(times) >= 4 and (taken <= FEW_FAULTS or kept <= (1 - GIVEN_BACK) * taken)
            if is_whole and max(times[-2:]) <= SETTLED * min(times):
                break

    def _calibrate(self, side: _Side) -> None:
        """Warm up and choose the number of calls in a sample."""
        side.per_call_s = 0.0
        self._order = self._next_order()
        self._warm_up(side)
        calls = 1
        while True:
            seconds = self._undisturbed(side, calls)
            side.per_call_s = max(seconds / calls, 1e-7)
            if seconds >= self._settings.batch_s / 2 or calls >= MAX_CALLS:
                break
            calls = min(calls * 4, MAX_CALLS)
        side.per_call_s = max(seconds / calls, 1e-7)
        side.calls = max(1, min(math.ceil(self._settings.batch_s / side.per_call_s), MAX_CALLS))
        side.calls = MOVABLE_CALLS if side.calls == 2 else side.calls
        side.is_quick = side.per_call_s < QUICK_S

    def _undisturbed(self, side: _Side, calls: int) -> float:
        """Return the least of up to three timings, where an interruption may explain a long one.

        After one interruption, the samples would be so short that they mostly measure the command itself.
        """
        seconds = self._batch(side, calls)
        for _ in range(2):
            if self._settings.batch_s / 2 <= seconds <= LONG_BATCHES * self._settings.batch_s:
                seconds = min(seconds, self._batch(side, calls))
        return self._without(self._round_trip_s, seconds)

    def _is_short(self, side: _Side) -> bool:
        """True when samples are much shorter than intended, because calls were slower during calibration.

        Short samples are interrupted less often than long ones, which must not favour a side.
        """
        seconds = statistics.median(self._ms(side)) * side.calls / 1e3
        return side.calls < MAX_CALLS and seconds < SHORT * self._settings.batch_s

    def _pin(self, sides: list[_Side]) -> None:
        """Pin the threads of all sides to cores of their own, unless that makes a side slower.

        A pinned thread that asks how many cores it may use is told one. The number of calls in a sample is
        chosen again: a side that was slow by chance would have too few calls, and waking up its threads would
        be a larger part of its samples.
        """
        n_cores = len(os.sched_getaffinity(0)) if self._is_pinned else 1
        found = [threads_to_pin(self._spell(side), n_cores) for side in sides]
        if not any(found):
            return
        # Other programs may have kept a side's thread waiting, and sides that work alike are pinned alike.
        found = [
            threads or threads_to_pin(self._spell(side), n_cores)
            for threads, side in zip(found, sides, strict=True)
        ]
        for threads in found:
            self._pinning.pin(threads)
        before_s = [side.per_call_s for side in sides]
        for side in sides:
            self._calibrate(side)
        if any(side.per_call_s > HINDERED * was_s for side, was_s in zip(sides, before_s, strict=True)):
            self._pinning.restore()
            for side in sides:
                self._calibrate(side)

    def _spell(self, side: _Side) -> Spell:
        return spell_of(self._child(side).pid, lambda: self._batch(side, side.calls))

    def _take_rounds(self, sides: list[_Side]) -> None:
        """Discard all samples and take new ones until there are enough."""
        settings = self._settings
        self._clocks.clear()  # samples of the warm-up are short and mostly waiting
        self._asking_s.clear()
        for side in sides:
            side.samples_s.clear()
        aim_s = settings.final_timing_s / LOOKS[0] if self._is_final else settings.search_timing_s
        begin = time.perf_counter()
        is_small = self._reference.layout.args_bytes <= SWAP_ALL_BYTES
        has_light_weights = self._reference.layout.state_bytes <= SWAP_ALL_BYTES
        for n in range(MAX_ROUNDS):
            if is_small or n % 6 == 5:
                self._swap()
            uncounted_at = time.perf_counter()
            if n < MIN_ROUNDS:
                is_other = n != self._replayed_at
                self._take_uncounted(self._take_other_inputs if is_other else self._take_as_replayed)
            if self._rng.random() < UNCOUNTED:
                kinds = (self._take_as_timed, self._take_as_replayed)
                self._take_uncounted(kinds[self._rng.random() < 1 / 2])
            begin += time.perf_counter() - uncounted_at
            has_changed = (has_light_weights or n % 3 == 2) and self._choose_weights()
            begin += self._prepare_move(n)
            self._order = self._next_order()
            for side in self._rng.sample(sides, len(sides)):
                with self._turn_of(side):
                    self._take_sample(side, n, has_changed=has_changed)
            if is_enough(self.samples(), time.perf_counter() - begin, aim_s, is_final=self._is_final):
                break

    def _take_uncounted(self, take: Callable[[], None]) -> None:
        """Have the candidate called as verification or the replay does; the calls do not count.

        So whoever could tell what timed calls are for would still be judged in them on inputs of all kinds.
        """
        worker = self._contestant
        worker.spoil()
        worker.perturb(PERTURB if self._rng.random() < POISONED else 0)
        self._order = self._next_order()
        with self._pinning.lifted() if self._rng.random() < UNPINNED else contextlib.nullcontext():
            take()
        worker.perturb(0)

    def _take_as_timed(self) -> None:
        self._batch(self._all[0], self._all[0].calls, is_checked=True, spoils=self._rng.random() < SPOILT)

    def _take_other_inputs(self) -> None:
        """Take a sample on inputs of another distribution, on their weights, and compare some outputs."""
        if self._reference.eager_ms > OTHER_MS or not self._other_keys:
            return
        draw = self._reference.draw(self._rng.choice(self._other_keys))
        if draw is None:
            return
        worker, calls = self._contestant, self._all[0].calls
        homes = {arena_of(name): self._place[arena_of(name)] for name in self._order}
        worker.load_state(draw.state)
        for name in homes:
            self._place[name] = draw
            worker.fill(name, draw.inputs)
        calls = self._rng.choice([calls, self._rng.randint(1, calls)])
        self._batch(self._all[0], calls, is_checked=True, spoils=self._rng.random() < SPOILT)
        worker.load_state(self._weights.state)
        self._reference.load_state(self._weights.state)  # what made the sample may have loaded others
        for name, before in homes.items():
            self._fill(name, before)

    def _take_as_replayed(self) -> None:
        """Call once on every argument set, keep all outputs and compare one of them."""
        if self._reference.device.is_apart:
            return
        worker, side = self._contestant, self._all[0]
        most = max(2, math.ceil(self._settings.batch_s / max(side.per_call_s, 1e-7)))
        names = self._rng.sample(self._sets, len(self._sets))[:most]
        worker.per_call_s = side.per_call_s
        worker.replay(names)
        at = self._rng.randrange(len(names))
        self._check_timed(self._place[names[at]], worker.fetch(at))
        worker.forget_kept()

    def _next_order(self) -> list[str]:
        """Return the argument sets that calls go round next: one for every input, or all on a device."""
        if self._reference.device.is_apart:
            return self._rng.sample(self._sets, len(self._sets))
        chosen = {id(self._place[name]): name for name in self._rng.sample(self._sets, len(self._sets))}
        return self._rng.sample(list(chosen.values()), len(chosen))

    _order: Sequence[str] = ()
    """The argument sets of the next calls."""

    def _take_sample(self, side: _Side, n: int, *, has_changed: bool) -> None:
        is_small = self._reference.output_bytes <= CHECK_ALL_BYTES
        is_checked = not side.callable and (is_small or self._rng.random() < CHECKED)
        self._wake(side)
        while self._is_cut_short(side):
            self._load_weights(side, has_changed=has_changed)
            calls = self._rng.randint(1, side.calls)
            self._batch(side, calls, is_checked=True, spoils=self._rng.random() < SPOILT)
            has_changed = has_changed and self._choose_weights()  # what this series met is no change now
            self._wake(side)
        # after these calls: what a side makes anew for other weights belongs to its sample
        self._load_weights(side, has_changed=has_changed)
        is_early = not side.callable and n == self._early_round
        unmet = None if side.callable or is_early else self._unmet
        side.samples_s.append(
            self._batch(side, side.calls, is_checked=is_checked, is_early=is_early, unmet=unmet)
        )

    def _wake(self, side: _Side) -> None:
        """Make calls that do not count: they wake up threads and warm caches after the other side's turn.

        Before them the caller changes some of the candidate's outputs.
        """
        if not side.callable:
            self._contestant.spoil()
        if side.is_quick:
            few = self._reference.device.is_apart or side.per_call_s * len(self._order) > QUICK_S
            self._batch(side, 1 if few else len(self._order))

    @contextlib.contextmanager
    def _turn_of(self, side: _Side) -> Iterator[None]:
        """Hold the candidate still in the turns of others; before its own, the reference pauses, too."""
        with contextlib.ExitStack() as still:
            if side.callable:
                still.enter_context(self._contestant.held_back())
            elif not self._reference.device.is_apart:
                with self._reference.child.stopped():
                    pass
            yield

    def _is_cut_short(self, side: _Side) -> bool:
        """True for a series whose early calls nobody could look into, when the lot says so."""
        is_long = side.calls > self._contestant.child.queue.ring
        return not side.callable and is_long and self._rng.random() < CUT_SHORT

    def _load_weights(self, side: _Side, *, has_changed: bool) -> None:
        """Load the weights of this turn, or only the buffers that calls have changed.

        So no buffer goes on for longer than a series, and ``_check_state`` compares after series as long.
        """
        process = self._reference if side.callable else self._contestant
        if has_changed:
            process.load_state(self._weights.state)
        elif self._written:
            process.load_state(self._weights.state, self._written)

    def _child(self, side: _Side) -> Child:
        return self._reference.child if side.callable else self._contestant.child

    def _swap(self) -> None:
        """Swap the addresses of two input sets on both sides, so that no address reveals the values."""
        one, other = self._next_order()[:2]
        one, other = arena_of(one), arena_of(other)
        first, second = self._place[one], self._place[other]
        self._fill(one, second)
        self._fill(other, first)

    def _choose_weights(self) -> bool:
        """Choose the weights of the next samples; return whether they are others."""
        before, state = self._weights.state, self._weights.next()
        if state is before:
            return False
        self._place = {name: self._weights.draw(draw) for name, draw in self._place.items()}
        return True

    def _prepare_move(self, n: int) -> float:
        """Prepare a change of weights in the middle of series; return the seconds that it took.

        Where a sample is one call, it begins with the change. Those of a session are few, and what was
        computed from them may be kept, so this one is new.
        """
        draws = list({id(draw): draw for draw in self._place.values()}.values())
        self._unmet = None
        if self._all[0].calls < MOVABLE_CALLS:
            begin = time.perf_counter()
            if n != self._early_round:
                self._unmet = self._reference.moves.unmet(self._rng.choice(draws))
                self._reference.load_state(self._weights.state)
            return time.perf_counter() - begin
        spent_s = self._reference.moves.prepare(draws, self._moves_s)
        if spent_s:
            self._moves_s -= spent_s
            self._reference.load_state(self._weights.state)
        return spent_s

    def _batch(
        self, side: _Side, calls: int, *, is_checked: bool = False, is_early: bool = False,
        unmet: MovedWeights | None = None, spoils: bool = False,
    ) -> float:  # fmt: skip
        """Return the seconds of ``calls`` calls by the parent's clock, round-trip overhead included.

        ``unmet``: how weights change meanwhile; None: as in other series. ``spoils``: outputs are written to
        while the calls go on, instead of weights; they do not count.
        """
        order = self._rng.sample(self._order, len(self._order))
        per_call_s = side.per_call_s or 1.0
        if side.callable:
            made = self._reference.make_calls(order, calls, callable=side.callable, per_call_s=per_call_s)
            self._asking_s.append(max(made.seconds - made.own_s, 0.0))
            return made.seconds
        worker = self._contestant
        n_looked = self._n_looked if is_checked else 0
        may_move = unmet or (n_looked and not spoils and (calls >= MOVABLE_CALLS or not is_early))
        moved, move = self._next_move(order, calls, unmet) if may_move else (None, None)
        made = worker.time(
            order, calls, per_call_s=per_call_s, n_looked=n_looked, is_early=is_early, move=move,
            spoils=spoils,
        )  # fmt: skip
        if is_early:
            self._early = self._draw_at(order, 0)
        cpu_s = worker.watch.command_s * made.counted / made.total
        seconds = self._without(self._round_trip_s, made.seconds)
        self._clocks.append(Clocks(made.own_s, seconds, cpu_s, worker.events_s))
        for position, results in worker.looked if is_checked else ():
            draw = self._draw_at(order, position)
            if moved and position >= made.unsure.stop:
                check_moved(self._reference, moved, draw, results, self._check_timed)
            else:
                self._check_timed(draw, results)
        return made.seconds

    def _next_move(
        self, order: list[str], calls: int, moved: MovedWeights | None
    ) -> tuple[MovedWeights | None, LiveMove | None]:
        """Choose how weights change in the middle of a series on these sets: both, or neither.

        Turns the order until it is known what the last call returns. ``moved``: the change, if it is chosen.
        """

        def is_known(position: int) -> bool:
            return moved is not None and moved.after(self._draw_at(order, position)) is not None

        if moved is None:
            moved = self._reference.moves.pick([self._draw_at(order, at) for at in range(len(order))])
        move = self._contestant.live(moved, is_known) if moved else None
        while move and not is_known(calls - 1):
            order.append(order.pop(0))
        return (moved, move) if move else (None, None)

    def _draw_at(self, order: Sequence[str], position: int) -> InputSample:
        return self._place[arena_of(order[position % len(order)])]

    def _ms(self, side: _Side) -> list[float]:
        """Return the milliseconds per call in every sample of a side.

        The round-trip overhead of a command is subtracted. It is the median of the parent's elapsed time
        minus the trusted process's own. It exceeds that of an empty command, because threads that still spin
        delay the answer. On a device it is that of an empty command.
        """
        asking_s = statistics.median(self._asking_s or [self._round_trip_s])
        if self._reference.device.is_apart:  # the process's own time ends before the work is done
            asking_s = self._round_trip_s
        return [self._without(asking_s, seconds) * 1e3 / side.calls for seconds in side.samples_s]

    @staticmethod
    def _without(asking_s: float, seconds: float) -> float:
        """Subtract the round-trip overhead from a sample, at most a tenth of the sample."""
        return seconds - min(asking_s, seconds / 10)

    def _check_timed(self, draw: InputSample, results: TensorMemory) -> None:
        try:
            self._verification.check_outputs(draw, results, " in a timed call")
        except Failure as failure:
            for other in map(self._weights.draw, self._draws):
                if other is not draw and matches(self._reference, other, results):
                    raise Failure(
                        Status.REJECTED,
                        "a timed call returned the result of other inputs",
                        check=Check.TIMED_CALLS,
                    ) from failure
            raise

    def _check_clocks(self) -> None:
        """Compare the time that the worker reports with what the parent measures.

        No timing rests on the worker's figure, but a wrong figure shows that its clock was tampered with. It
        may not be more than the parent measured. It may not be so little that the worker's threads could not
        have used their processor time. Both hold on a busy machine too, where the parent measures much more
        than the worker. Samples as short as the slack decide nothing.
        """
        long = [clocks for clocks in self._clocks if clocks.cpu_s > 4 * CLOCK_SLACK_S]
        n_processors = os.cpu_count() or 1
        least = [(c.claimed_s + CLOCK_SLACK_S) * n_processors / c.cpu_s for c in long]
        most = [(c.claimed_s - CLOCK_SLACK_S) / c.seconds for c in self._clocks]
        if statistics.median(least or [1.0]) < CLOCK_LOW:
            ratio = statistics.median(c.claimed_s / c.cpu_s for c in long)
            what = f"{ratio:.2f} of the processor time that it used"
        elif (usual := statistics.median(most or [0.0])) > CLOCK_HIGH:
            what = f"{usual:.2f} of the time that the parent measured"
        else:
            return
        detail = f"clock disagreement: the time that the worker reports is {what}"
        raise Failure(Status.REJECTED, detail, check=Check.CLOCK, is_by_clock=True)

    def _check_unwritten(self) -> None:
        """After all calls, state that the reference leaves alone must be as the parent wrote it."""
        layout, changed = self._reference.layout, self._draws[0].changed
        slots = {name: slot for name, slot in layout.state.items() if name not in changed}
        if not slots:
            return
        after = self._contestant.fetch_state(slots)
        for name, slot in slots.items():
            if after.differs_from(self._weights.state.memory, slot):
                is_parameter = name in layout.parameters
                status = Status.MUTATED_INPUT if is_parameter else Status.INCORRECT_STATE
                kind = "parameter" if is_parameter else "buffer"
                raise Failure(status, f"the candidate wrote to {kind} {name} in a timed or replayed call")

    def _check_state(self) -> None:
        """After some calls, and after as many as a timed series may have, buffers must be the reference's."""
        if not self._draws[0].changed:
            return
        side = self._all[0]
        most = max(2, min(STATE_CALLS, math.ceil(STATE_S / max(side.per_call_s, 1e-7))))
        self._check_state_after(self._rng.randint(2, most))
        longest = min(side.calls, int(LONG_STATE_S / max(self._reference.eager_ms / 1e3, side.per_call_s)))
        if longest > STATE_CALLS:
            self._check_state_after(self._rng.randint(2, longest // 2))
            self._check_state_after(self._rng.randint(longest // 2, longest))

    def _check_state_after(self, calls: int) -> None:
        """Compare buffers after so many calls.

        The last of them are on other inputs: what has settled on the first ones would not show whether it is
        still updated. Weights may be others, as in a timed series.
        """
        self._choose_weights()
        *first, last = (arena_of(name) for name in self._next_order())
        n_last = self._rng.randint(1, min(calls, STATE_CALLS) - 1)
        order = [*itertools.islice(itertools.cycle(first), calls - n_last), *[last] * n_last]
        self._contestant.load_state(self._weights.state)
        self._reference.load_state(self._weights.state)
        self._contestant.time(order, calls)
        self._reference.make_calls(order, calls)
        slots = {name: self._reference.layout.state[name] for name in self._draws[0].changed}
        ours, theirs = self._reference.fetch_state(slots), self._contestant.fetch_state(slots)
        for name, slot in slots.items():
            least = self._draws[0].changed[name].least_scale
            pair = ours.slot_bytes(slot), theirs.slot_bytes(slot)
            if distance_between(slot["dtype"], *pair, least) > STATE_NEAR:
                detail = f"after {calls} further calls, buffer {name} is not as the reference leaves it"
                raise Failure(Status.INCORRECT_STATE, detail)

    def _check_late(self) -> None:
        """After all calls, outputs must still be fresh memory with the right values."""
        first, second = self._rng.sample(list(self._place), 2)
        if self._early is not None and not still_matches(
            self._reference, self._early, self._contestant.fetch_early()
        ):
            raise Failure(Status.ALIASED_OUTPUT, "the output of an early timed call changed in later calls")
        self._contestant.time([first], 1)
        self._contestant.time([second], 1)
        if not still_matches(self._reference, self._place[first], self._contestant.fetch("previous")):
            raise Failure(Status.ALIASED_OUTPUT, "after the timed calls, an output changed in the next call")
        self._check_timed(self._place[second], self._contestant.fetch())
        for name in self._sets:
            draw, now = self._place[arena_of(name)], self._contestant.inputs_now(name)
            for i, slot in enumerate(self._reference.layout.arg_slots):
                if now.differs_from(draw.inputs, slot):
                    detail = f"the candidate wrote to input tensor {i} in a timed call"
                    raise Failure(Status.MUTATED_INPUT, detail)


def _light_buffers(reference: ReferenceProcess, draw: InputSample) -> dict[str, Slot]:
    """Return the buffers that the reference's calls change, unless writing them takes long."""
    slots = {name: reference.layout.state[name] for name in draw.changed}
    return slots if sum(map(slot_nbytes, slots.values())) <= SWAP_ALL_BYTES else {}


def events_problem(samples: Sequence[Clocks]) -> str | None:
    """Return one line when a device's events and the clocks disagree; None without a device.

    Events are recorded on the stream on which a candidate is called, around all calls. They cannot show
    more than the parent's clock, which waits for the whole device. Where they show far less than the lesser
    of both clocks, the candidate worked on other streams, or tampered with the events. The lesser clock
    decides there, because the parent measures too much on a busy machine. The worker's clock is no upper
    limit: it ends when the last call has returned, before the device is done.
    """
    told = [(s.events_s, s) for s in samples if s.events_s is not None and min(s.seconds, s.claimed_s) > 0]
    if not told:
        return None
    by_parent = [(events_s, s.seconds) for events_s, s in told]
    by_lesser = [(events_s, min(s.seconds, s.claimed_s)) for events_s, s in told]
    least = statistics.median((events_s + CLOCK_SLACK_S) / clock_s for events_s, clock_s in by_lesser)
    most = statistics.median((events_s - CLOCK_SLACK_S) / clock_s for events_s, clock_s in by_parent)
    if least >= CLOCK_LOW and most <= CLOCK_HIGH:
        return None
    wrong = by_lesser if least < CLOCK_LOW else by_parent
    ratio = statistics.median(events_s / clock_s for events_s, clock_s in wrong)
    return f"clock disagreement: events on the candidate's stream show {ratio:.2f} of the time of its calls"
