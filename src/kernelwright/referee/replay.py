"""Calls on inputs that the candidate has never seen, every output kept: are they like the timed ones?

The timed calls go round two or three input sets, and only the last output of a sample is looked at. A
candidate that recognises inputs, skips calls, leaves work for later or knows when it is watched is fast there
and nowhere else. Here every call of a pass has inputs of its own, all outputs are kept, and which of them are
compared is decided when the pass is over. A pass on *known* values lies in the same memory, so that cold
caches are no difference between the two; which of them comes first is drawn, and nothing else is done between
them, so that what a machine is busy with is none either.

What the passes say is concluded in passes.py. Work in other processes, or while nothing is asked, is watched
elsewhere (watch.py).
"""

import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.evaluation import Check, Status
from kernelwright.referee import admission
from kernelwright.referee.contestant import Contestant, Failure
from kernelwright.referee.draws import Draw
from kernelwright.referee.memory import SharedMemory
from kernelwright.referee.passes import (
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
from kernelwright.referee.verify import still_matches

PASS_S = 0.01
"""Aim for one pass."""
LEAST_CALLS, LEAST_S = 3, 0.03
"""Calls of a pass at least, where one takes less than this; slower ones are samples by themselves."""
MEMORY_SHARE = 0.1
"""No replay where it would need more of the available memory than this."""
DEVICE_SHARE = 0.02
"""Large passes only where both processes need no more of a device's memory than this."""
PAUSE_S = 0.02
"""Pauses after passes that find something, doubling: on a busy machine the time of a millisecond's work
varies fivefold, but not for seconds on end."""
WARM_CALLS = 24
WARM_S, WARM_AIM_S, WARM_FACTOR = 0.03, 0.001, 1.5
"""Seconds of warming up before a pass at most, of one of its rounds about, and when it has ended: two threads
that lie on one core, as they do after having slept, take ten times as long until they are parted."""
N_COMPARED = 2
"""Outputs on known values that are compared in a pass."""
ARENA = "replay"


@dataclass(frozen=True)
class _Kept:
    """An output to be compared when the pass is over."""

    position: int
    draw: Draw
    output: SharedMemory


def check_afterwards(
    contestant: Contestant,
    draws: Sequence[Draw],
    timed_ms: Sequence[float],
    eager_ms: Sequence[float],
    size: PassSize | None = None,
) -> None:
    """Look at a candidate that has been timed: idle work, replay, tampering; raises Failure.

    Args:
        contestant: At rest, with the weights of the draws loaded.
        draws: Those whose inputs were timed.
        timed_ms: The candidate's samples, milliseconds a call.
        eager_ms: The reference's, taken between those; empty when it was not timed.
        size: Of a pass at most; None: what the device asks for.
    """
    contestant.check_idle()
    contestant.watch.reset()
    Replay(contestant, draws, timed_ms, eager_ms, size).check()
    contestant.check_idle()
    contestant.check_untampered()


class Replay:
    """The replay of one candidate after its timing."""

    def __init__(
        self,
        contestant: Contestant,
        draws: Sequence[Draw],
        timed_ms: Sequence[float],
        eager_ms: Sequence[float],
        size: PassSize | None = None,
    ) -> None:
        """See ``check_afterwards``."""
        self._contestant, self._reference = contestant, contestant.reference
        self._draws = draws
        self._timed = Timed(
            seconds=statistics.median(timed_ms) / 1e3,
            cpu_s=contestant.timed_cpu_s,
            eager_s=statistics.median(eager_ms) / 1e3 if eager_ms else None,
        )
        self._rng = random.Random()
        self._first_slot = next(iter(contestant.slots))
        self._stride = contestant.slots[self._first_slot].size
        has_driver = self._reference.device.has_driver
        self._count = self._choose_count(size or (ON_A_GPU if has_driver else ON_THE_PROCESSOR))

    def check(self) -> None:
        """Replay; raises Failure."""
        if self._count == 0:
            return
        try:
            self._map()
            passes: list[Pass] = []
            while not is_over(passes, self._timed, self._count):
                passes.append(self._take_pass(is_first=not passes))
                if problem_of(passes[-1], self._timed, self._count):
                    time.sleep(PAUSE_S * 2 ** (len(passes) - 1))
            if problem := conclude(passes, self._timed, self._count):
                raise Failure(Status.REJECTED, problem, check=Check.REPLAY)
        finally:
            self._reference.forget(ARENA)
        self._contestant.forget_kept()

    def _choose_count(self, size: PassSize) -> int:
        """Return the calls of a pass: fewer where memory is short, none where it is very short."""
        output_bytes = self._reference.output_bytes
        one = self._stride + output_bytes
        room = int(MEMORY_SHARE * admission.available_bytes()) // (3 * one)
        there = int(DEVICE_SHARE * self._reference.room_bytes) // (2 * one)
        wanted, least = (
            n_calls(self._timed.seconds, self._stride, output_bytes, known)
            for known in (size, ON_THE_PROCESSOR)
        )
        count = max(min(wanted, room, there), min(wanted, least))
        return count if count <= room else 0

    def _map(self) -> None:
        size = self._count * self._stride
        self._fresh, self._theirs, self._ours = (SharedMemory(size) for _ in range(3))
        self._contestant.bind_copies(ARENA, self._theirs, self._count, self._stride)
        self._reference.bind_copies(ARENA, self._ours, self._count, self._stride)
        order = [f"{ARENA}:{i}" for i in range(self._count)]
        for i in range(self._count):
            self._put(self._theirs, i, self._draws[i % len(self._draws)].inputs)
        self._ours.copy_from(self._theirs)
        self._contestant.upload(ARENA)
        self._reference.upload(ARENA)
        self._time(order)  # not counted: takes pages into both processes
        self._time_reference(order)

    def _take_pass(self, *, is_first: bool) -> Pass:
        order = [f"{ARENA}:{i}" for i in self._rng.sample(range(self._count), self._count)]
        position = self._rng.randrange(self._count)
        self._reference.draw_more(self._fresh, self._count)
        unseen_draw = self._reference.unseen_draw(is_new=not is_first)
        if unseen_draw is not None:
            self._put(self._fresh, _index(order[position]), unseen_draw.inputs)

        kept: list[_Kept] = []
        if is_known_first := self._rng.random() < 1 / 2:
            known = self._time_known(order, kept)
        self._theirs.copy_from(self._fresh)
        unseen = self._time(order)
        unseen_cpu = self._contestant.watch.command_s / self._count
        late = self._late_s(position)
        if unseen_draw is not None:
            kept.append(self._keep(position, unseen_draw))
        if not is_known_first:
            known = self._time_known(order, kept)
        for output in kept:
            self._check(output)

        self._ours.copy_from(self._fresh)
        self._reference.upload(ARENA)
        warm = self._time_reference(self._reference.set_names, self._count)
        return Pass(known, unseen, unseen_cpu, self._time_reference(order), warm, late)

    def _put(self, memory: SharedMemory, index: int, inputs: SharedMemory) -> None:
        memory.bytes[index * self._stride : (index + 1) * self._stride] = inputs.bytes

    def _time_known(self, order: list[str], kept: list[_Kept]) -> float:
        """Time one call on every set, whose values were timed before; keeps some of the outputs."""
        draws = [self._rng.choice(self._draws) for _ in order]
        for name, draw in zip(order, draws, strict=True):
            self._put(self._theirs, _index(name), draw.inputs)
        seconds = self._time(order)
        for at in self._rng.sample(range(self._count), min(N_COMPARED, self._count)):
            kept.append(self._keep(at, draws[at]))
        return seconds

    def _time(self, order: list[str]) -> float:
        """Time one call on every set, as they lie in shared memory now."""
        self._contestant.upload(ARENA)
        self._contestant.forget_kept()
        self._warm_up()
        begin = time.perf_counter()
        self._contestant.replay(order)
        return (time.perf_counter() - begin) / self._count

    def _warm_up(self) -> None:
        """Wake threads up, until a call takes about what it took when it was timed."""
        calls = max(1, min(WARM_CALLS, math.ceil(WARM_AIM_S / max(self._timed.seconds, 1e-7))))
        wanted = WARM_FACTOR * calls * self._timed.seconds + SLACK_S
        end = time.perf_counter() + WARM_S
        while (begin := time.perf_counter()) < end:
            self._contestant.time([self._first_slot], calls)
            if time.perf_counter() - begin <= wanted:
                return

    def _time_reference(self, sets: list[str], calls: int = 0) -> float:
        """Time one call on every set with outputs kept, or that many going round the sets."""
        call = self._reference.call
        begin = time.perf_counter()
        if calls:
            call("time", callable="eager", sets=sets, calls=calls)
        else:
            call("replay", callable="eager", sets=sets)
        seconds = time.perf_counter() - begin
        call("forget_kept")
        return seconds / self._count

    def _late_s(self, position: int) -> float:
        """Return what reading an output takes longer for the first time than for the second."""
        first, second = self._fetching_s(position), self._fetching_s(position)
        return min(a - b for a, b in zip(first, second, strict=True))

    def _fetching_s(self, position: int) -> tuple[float, float]:
        """Return what reading an output takes, by the clock and of its process's processor time.

        Late work takes both; being interrupted takes only one of them.
        """
        begin = time.perf_counter()
        self._contestant.fetch(position)
        return time.perf_counter() - begin, self._contestant.watch.command_s

    def _keep(self, position: int, draw: Draw) -> _Kept:
        return _Kept(position, draw, self._contestant.fetch(position).copy())

    def _check(self, kept: _Kept) -> None:
        if not still_matches(self._reference, kept.draw, kept.output):
            raise Failure(
                Status.REJECTED,
                f"call {kept.position + 1} of {self._count} without a pause between them gave a wrong output",
                check=Check.REPLAY,
            )


def n_calls(timed_s: float, set_bytes: int, output_bytes: int, size: PassSize) -> int:
    """Return the calls of a pass for a candidate that takes so many seconds, memory aside."""
    fitting = size.bytes // max(set_bytes, output_bytes)
    least = LEAST_CALLS if timed_s < LEAST_S else 1
    wanted = max(least, math.ceil(PASS_S / max(timed_s, 1e-7)))
    return max(1, min(size.calls, fitting, wanted))


def _index(name: str) -> int:
    return int(name.rpartition(":")[2])
