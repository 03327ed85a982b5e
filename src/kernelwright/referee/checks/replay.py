"""Calls a candidate on unseen inputs and keeps every output: are these calls like the timed ones?

The timed calls rotate through two or three input sets, and only the last output of a sample is checked. A
candidate that recognises inputs, skips calls, leaves work for later or knows when it is watched is fast there
and nowhere else. In a replay every call of a pass has its own inputs, all outputs are kept, and the outputs
to compare are chosen after the pass. Calls on *known* values use the same memory as calls on unseen values,
so cold caches affect both alike. The order of the two is random, and nothing else happens between them, so a
busy machine affects both alike too.

``replay_statistics.py`` draws the conclusion from the passes. ``watch.py`` watches work in other processes
and work between commands.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from kernelwright.core.evaluation import Check, Status
from kernelwright.referee.checks.replay_statistics import (
    ON_A_GPU,
    ON_THE_PROCESSOR,
    SLACK_S,
    Pass,
    PassSize,
    Timed,
    conclude,
    is_over,
    problem_of,
)
from kernelwright.referee.checks.verify import matches_on, still_matches
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample, WeightState
from kernelwright.referee.session.shared_memory import SharedMemory, TensorMemory
from kernelwright.referee.session.weight_exchange import WeightExchange
from kernelwright.referee.worker.layouts import lanes_of

PASS_S = 0.01
"""Time that one pass should take."""
LEAST_CALLS, LEAST_S = 3, 0.03
"""A pass has at least ``LEAST_CALLS`` calls if a call takes less than ``LEAST_S``, else at least one."""
DEVICE_SHARE = 0.02
"""Passes of many calls may need at most this share of a device's memory in both processes together."""
PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.2
"""First and longest pause after passes that find something; the pauses double. On a busy machine the time of
a millisecond's work varies fivefold, but mostly not for long."""
WARM_CALLS = 24
WARM_S, WARM_AIM_S, WARM_FACTOR = 0.03, 0.001, 1.5
"""A warm-up before a pass takes at most ``WARM_S`` seconds, in rounds of about ``WARM_AIM_S``. It ends when a
round takes at most ``WARM_FACTOR`` times what timing predicts. After sleep, two threads may share a core and
take ten times as long until the system separates them."""
NEAR_ROUNDS = 3
"""Calls of a pass in every slot whose inputs were timed."""
N_COMPARED = 2
"""Number of outputs on known values that a pass compares."""
N_LOOKED_AT, SUSPICIOUS = 8, 1e-3
"""Number of outputs on unseen values that a pass compares with the reference's own outputs, which is cheap.
If the largest distance is above ``SUSPICIOUS``, the oracle judges that output. A candidate that gains speed
by wrong outputs needs many of them."""
ARENA = "replay"


@dataclass(frozen=True)
class _Kept:
    """An output to be compared after the pass."""

    position: int
    draw: InputSample
    output: TensorMemory


class Replay:
    """The replay of one candidate after its timing."""

    def __init__(
        self,
        worker: CandidateProcess,
        draws: Sequence[InputSample],
        weights: WeightExchange,
        timed_ms: Sequence[float],
        eager_ms: Sequence[float],
        size: PassSize | None = None,
    ) -> None:
        """Prepare a replay with the results of the timing.

        Args:
            worker: The candidate process, idle, with the weights of the samples loaded.
            draws: The samples whose inputs were timed. The replay overwrites the candidate's slots.
            weights: Which weights the next pass has.
            timed_ms: The candidate's samples, in milliseconds per call.
            eager_ms: The reference's samples, taken in between; empty when it was not timed.
            size: Largest size of a pass; None: the default of the device.
        """
        self._contestant, self._reference = worker, worker.reference
        self._draws, self._weights = draws, weights
        self._timed = Timed(
            seconds=statistics.median(timed_ms) / 1e3,
            cpu_s=worker.timed_cpu_s,
            eager_s=statistics.median(eager_ms) / 1e3 if eager_ms else None,
        )
        self._rng = random.Random()
        worker.per_call_s = self._timed.seconds
        self._stride = next(iter(worker.slots.values())).size
        self._pool = [] if self._reference.device.is_apart else list(worker.slots)
        """Argument sets of all calls; on a device a pass has others."""
        has_driver = self._reference.device.has_driver
        self._count = self._choose_count(size or (ON_A_GPU if has_driver else ON_THE_PROCESSOR))

    def check(self) -> str | None:
        """Replay; raises Failure. Returns why there was no replay, or None."""
        if self._count == 0:
            return "no replay: inputs and outputs of one call take too much of the machine's memory"
        try:
            self._map()
            passes: list[Pass] = []
            while not is_over(passes, self._timed, self._count):
                if passes and problem_of(passes[-1], self._timed, self._count):
                    time.sleep(min(PAUSE_S * 2 ** (len(passes) - 1), LONGEST_PAUSE_S))
                passes.append(self._take_pass())
            if problem := conclude(passes, self._timed, self._count):
                raise Failure(Status.REJECTED, problem, check=Check.REPLAY, is_by_clock=True)
        finally:
            self._reference.forget(ARENA)
        self._contestant.forget_kept()
        return None

    def _choose_count(self, size: PassSize) -> int:
        """Return the number of calls of a pass: fewer where memory is short, 0 where one call is too large.

        The available memory was read before the candidate started, because a candidate could hold the rest.
        """
        output_bytes = self._reference.output_bytes
        one = self._stride + output_bytes
        room = self._reference.replay_bytes // (4 * one)
        there = int(DEVICE_SHARE * self._reference.room_bytes) // (2 * one)
        wanted, least = (
            n_calls(self._timed.seconds, self._stride, output_bytes, known)
            for known in (size, ON_THE_PROCESSOR)
        )
        most = len(self._pool) or room
        return min(max(min(wanted, there), min(wanted, least)), room, most)

    def _map(self) -> None:
        self._fresh, self._known = (TensorMemory(self._count * self._stride) for _ in range(2))
        if self._pool:
            self._theirs, self._ours = self._contestant.slots, self._reference.slots
        else:
            self._theirs, self._ours = self._map_more()
        self._choose_sets()
        for i, name in enumerate(self._names):
            self._theirs[name].copy_from(self._draws[i % len(self._draws)].inputs)
            self._ours[name].copy_from(self._theirs[name])
        self._reference.upload(ARENA)
        self._time(self._names, lambda: None)  # not counted: maps the pages into both processes
        self._time_reference(self._names)

    def _map_more(self) -> tuple[dict[str, TensorMemory], dict[str, TensorMemory]]:
        """Give both processes further argument sets; return name -> memory of theirs and ours."""
        sides = []
        for side in (self._contestant, self._reference):
            memory = SharedMemory(self._count * self._stride)
            side.bind_copies(ARENA, memory, self._count, self._stride)
            sides.append({f"{ARENA}:{i}": memory.part(i, self._stride) for i in range(self._count)})
        return sides[0], sides[1]

    def _choose_sets(self) -> None:
        """Choose the argument sets of the next pass; ``_names`` has them in the order of their values."""
        self._names = self._rng.sample(list(self._theirs), self._count)

    def _write(self, sets: Mapping[str, TensorMemory], values: TensorMemory) -> None:
        for i, name in enumerate(self._names):
            sets[name].bytes[:] = self._bytes(values, i)

    def _take_pass(self) -> Pass:
        self._choose_sets()
        order = self._rng.sample(self._names, self._count)
        position = self._rng.randrange(self._count)
        state = self._weights.next()
        self._reference.draw_more(self._fresh, self._count)
        unseen_draw = self._reference.unseen_draw(state)
        if unseen_draw is not None:
            self._put(self._fresh, self._names.index(order[position]), unseen_draw.inputs)
        draws = [self._weights.draw(self._rng.choice(self._draws)) for _ in order]
        for i, draw in enumerate(draws):  # one by one, so that the copy has the same effect on caches
            self._put(self._known, i, draw.inputs)

        self._contestant.load_state(state)
        self._reference.load_state(state)
        kept: list[_Kept] = []
        if is_known_first := self._rng.random() < 1 / 2:
            known = self._time_known(order, draws, kept)
        unseen = self._time(order, lambda: self._write(self._theirs, self._fresh))
        unseen_cpu = self._contestant.watch.command_s / self._count
        late = self._late_s(position)
        if unseen_draw is not None:
            kept.append(self._keep(position, unseen_draw))
        looked_at = self._fetch_some()
        if not is_known_first:
            known = self._time_known(order, draws, kept)
        self._write(self._ours, self._fresh)
        self._reference.upload(ARENA)
        near_known, near_unseen = self._time_near(state)
        for output in kept:
            self._check(output)

        warm = self._time_reference(self._names[: len(self._draws)] if self._pool else
                                    self._reference.set_names, self._count)  # fmt: skip
        cold = self._time_reference(order)
        self._look_at(looked_at, order)
        self._reference.forget_kept()
        return Pass(known, unseen, unseen_cpu, cold, warm, late, near_known, near_unseen)

    def _put(self, memory: TensorMemory, index: int, inputs: TensorMemory) -> None:
        self._bytes(memory, index)[:] = inputs.bytes

    def _bytes(self, memory: TensorMemory, index: int) -> npt.NDArray[np.uint8]:
        return memory.bytes[index * self._stride : (index + 1) * self._stride]

    def _time_known(self, order: list[str], draws: Sequence[InputSample], kept: list[_Kept]) -> float:
        """Time one call on every set with values that were timed before; keep some of the outputs."""
        seconds = self._time(order, lambda: self._write(self._theirs, self._known))
        for at in self._rng.sample(range(self._count), min(N_COMPARED, self._count)):
            kept.append(self._keep(at, draws[self._names.index(order[at])]))
        return seconds

    def _time_near(self, state: WeightState) -> tuple[float, float]:
        """Time a few calls on known and on further unseen values at the addresses that were timed.

        A candidate could know these addresses, return remembered outputs there and be honest elsewhere.
        One output on unseen values is compared.
        """
        names = list(self._contestant.slots)
        slots = self._rng.sample(names, min(len(self._draws), self._count))
        count = len(slots) * min(NEAR_ROUNDS, self._count // len(slots))
        self._reference.draw_more(self._fresh, count)
        at = self._rng.randrange(count)
        seconds = {}
        for memory in self._rng.sample((self._known, self._fresh), 2):
            self._contestant.forget_kept()
            self._warm_up()
            rounds = []
            for first in range(0, count, len(slots)):
                rounds.append(self._time_round(slots, memory, first))
                if memory is self._fresh and first <= at < first + len(slots):
                    looked_at = self._contestant.fetch(at - first).copy()
            seconds[memory] = statistics.median(rounds)
        if not matches_on(self._reference, self._bytes(self._fresh, at), state, looked_at):
            raise _wrong_output(at, count)
        return seconds[self._known], seconds[self._fresh]

    def _time_round(self, slots: Sequence[str], memory: TensorMemory, first: int) -> float:
        """Time one call in each slot on values from ``memory``; return the seconds per call."""
        sets = [next(iter(lanes_of(name, self._reference.lanes))) for name in slots]
        return self._replay(sets, partial(self._put_near, slots, memory, first), slots) / len(slots)

    def _put_near(self, slots: Sequence[str], memory: TensorMemory, first: int) -> None:
        for i, name in enumerate(slots, first):
            self._contestant.slots[name].bytes[:] = self._bytes(memory, i)

    def _time(self, order: list[str], put: Callable[[], None]) -> float:
        """Time one call on every set after ``put`` has written the inputs; return the seconds per call.

        No code of the candidate is called between ``put`` and the timed calls: no earlier output is
        destroyed, no call warms up. Time that its threads use in between is added to the calls.
        """
        self._contestant.forget_kept()
        self._warm_up()
        return self._replay(order, put, [ARENA]) / self._count

    def _replay(self, sets: list[str], put: Callable[[], None], arenas: Sequence[str]) -> float:
        put()
        watch, ahead_s = self._contestant.watch, 0.0
        if self._reference.device.is_apart:
            for arena in arenas:
                self._contestant.upload(arena)
                ahead_s += watch.ahead_s
        self._contestant.replay(sets)
        return self._contestant.child.answered_in_s + ahead_s + watch.ahead_s

    def _warm_up(self) -> None:
        """Call, to wake up threads, until a call takes about as long as during timing."""
        calls = max(1, min(WARM_CALLS, math.ceil(WARM_AIM_S / max(self._timed.seconds, 1e-7))))
        wanted = WARM_FACTOR * calls * self._timed.seconds + SLACK_S
        end = time.perf_counter() + WARM_S
        while (begin := time.perf_counter()) < end:
            sets = self._rng.sample(list(self._contestant.slots), len(self._draws))
            self._contestant.time(sets, calls, per_call_s=self._timed.seconds)
            if time.perf_counter() - begin <= wanted:
                return

    def _time_reference(self, sets: list[str], calls: int = 0) -> float:
        """Time one call on every set with outputs kept, or ``calls`` calls that rotate through the sets."""
        reference, per_call_s = self._reference, self._timed.eager_s or 1.0
        reference.forget_kept()
        keep = () if calls else range(1, len(sets) + 1)
        with self._contestant.held_back():
            made = reference.make_calls(sets, calls or len(sets), per_call_s=per_call_s, keep=keep)
        return made.seconds / self._count

    def _late_s(self, position: int) -> float:
        """Return by how many seconds the first reading of an output takes longer than the second."""
        first, second = self._fetching_s(position), self._fetching_s(position)
        return min(a - b for a, b in zip(first, second, strict=True))

    def _fetching_s(self, position: int) -> tuple[float, float]:
        """Return the seconds that reading an output takes: by the clock, and of the process's processor time.

        Work that is done late takes both; an interruption takes only one of them.
        """
        begin = time.perf_counter()
        self._contestant.fetch(position)
        return time.perf_counter() - begin, self._contestant.watch.command_s

    def _keep(self, position: int, draw: InputSample) -> _Kept:
        return _Kept(position, draw, self._contestant.fetch(position).copy())

    def _check(self, kept: _Kept) -> None:
        if not still_matches(self._reference, kept.draw, kept.output):
            raise _wrong_output(kept.position, self._count)

    def _fetch_some(self) -> dict[int, TensorMemory]:
        """Return some outputs on unseen values: position of the call -> output."""
        positions = self._rng.sample(range(self._count), min(N_LOOKED_AT, self._count))
        return {position: self._contestant.fetch(position).copy() for position in positions}

    def _look_at(self, outputs: Mapping[int, TensorMemory], order: Sequence[str]) -> None:
        """Check the output that is furthest from the reference's output of the same call."""
        distances = {at: self._reference.distance_to_kept(at, output) for at, output in outputs.items()}
        furthest = max(distances, key=lambda at: distances[at])
        if distances[furthest] <= SUSPICIOUS:
            return
        raw = self._ours[order[furthest]].bytes
        draw = self._reference.draw_of(raw, self._weights.state)
        if draw is not None:
            self._check(_Kept(furthest, draw, outputs[furthest]))


def _wrong_output(position: int, count: int) -> Failure:
    words = f"call {position + 1} of {count} calls in a row returned a wrong output"
    return Failure(Status.REJECTED, words, check=Check.REPLAY)


def n_calls(timed_s: float, set_bytes: int, output_bytes: int, size: PassSize) -> int:
    """Return the calls of a pass for a candidate with this latency, without regard to memory."""
    fitting = size.bytes // max(set_bytes, output_bytes)
    least = LEAST_CALLS if timed_s < LEAST_S else 1
    wanted = max(least, math.ceil(PASS_S / max(timed_s, 1e-7)))
    return max(1, min(size.calls, fitting, wanted))
