"""Calls on inputs that the candidate has never seen, every output kept: are they like the timed ones?

The timed calls go round two or three input sets, and only the last output of a sample is looked at. A
candidate that recognises inputs, skips calls, leaves work for later or knows when it is watched is fast there
and nowhere else. Here every call of a pass has inputs of its own, all outputs are kept, and which of them are
compared is decided when the pass is over. A pass on *known* values lies in the same memory, so that cold
caches are no difference between the two.

What is compared is the parent's clock, as in timing: processor time also counts threads that wait for work,
which a kernel may have many of, and which hide what the others do. Beside the timed calls, which lie some
seconds back, both must be more. How much slower a busy machine has become the reference says. Work in other
processes, or while nothing is asked, is watched elsewhere (watch.py).
"""

import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from kernelwright.core.evaluation import Check, Status
from kernelwright.referee import admission
from kernelwright.referee.contestant import Contestant, Failure
from kernelwright.referee.draws import Draw
from kernelwright.referee.memory import SharedMemory
from kernelwright.referee.verify import still_matches

MAX_CALLS = 24
PASS_S = 0.01
"""Aim for one pass."""
LEAST_CALLS, LEAST_S = 3, 0.03
"""Calls of a pass at least, where one takes less than this; slower ones are samples by themselves."""
PASS_BYTES = 48 << 20
"""Inputs of one pass, and its outputs, take no more than this where two calls fit."""
MEMORY_SHARE = 0.1
"""No replay where it would need more of the available memory than this."""
MOST_FINE, N_PASSES, PAUSE_S = 2, 8, 0.02
"""A candidate is rejected when all but so few of so many passes find something, and the least of every
figure does, too: on a busy machine one interruption would acquit, and one lucky moment accuse. Pauses
between them double: there the time of a millisecond's work varies fivefold, but not for seconds on end."""
UNSEEN_FACTOR = 1.5
"""A call on unseen values may take this many times what one on known values takes."""
TIMED_FACTOR = 2.5
"""A call in a pass may take this many times a timed one and what the reference loses to colder caches."""
MOST_SLOWDOWN = 3.0
"""The machine may have become slower by this much, when the reference has."""
SLACK_S = 500e-6
"""Of every pass: reading the command, answering, waking up."""
LATE_SHARE = 0.5
"""An output whose first copy takes longer than the second by this share of a call was made on reading."""
ARENA = "replay"


@dataclass(frozen=True)
class _Pass:
    """Seconds a call."""

    known: float
    unseen: float
    unseen_cpu: float
    """Of processor time, the same."""
    reference: float
    """The reference's, on unseen values."""
    warm: float
    """The reference's, on the inputs that were timed."""
    late: float
    """What reading an output took longer for the first time than for the second."""


def check_afterwards(
    contestant: Contestant, draws: Sequence[Draw], timed_ms: Sequence[float], eager_ms: Sequence[float]
) -> None:
    """Look at a candidate that has been timed: idle work, replay, tampering; raises Failure.

    Args:
        contestant: At rest, with the weights of the draws loaded.
        draws: Those whose inputs were timed.
        timed_ms: The candidate's samples, milliseconds a call.
        eager_ms: The reference's, taken between those; empty when it was not timed.
    """
    contestant.check_idle()
    contestant.watch.reset()
    Replay(contestant, draws, timed_ms, eager_ms).check()
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
    ) -> None:
        """See ``check_afterwards``."""
        self._contestant, self._reference = contestant, contestant.reference
        self._draws = draws
        self._timed_s = statistics.median(timed_ms) / 1e3
        self._timed_cpu_s = contestant.timed_cpu_s
        self._eager_s = statistics.median(eager_ms) / 1e3 if eager_ms else None
        self._rng = random.Random()
        self._stride = contestant.slots[next(iter(contestant.slots))].size
        self._count = self._choose_count()

    def check(self) -> None:
        """Replay; raises Failure."""
        if self._count == 0:
            return
        try:
            self._map()
            problem = self._problem_of_all()
            if problem:
                raise Failure(Status.REJECTED, problem, check=Check.REPLAY)
        finally:
            self._reference.forget(ARENA)
        self._contestant.forget_kept()

    def _problem_of_all(self) -> str | None:
        """Take passes until enough of them are fine, or all; return what is wrong."""
        passes: list[_Pass] = []
        n_fine = 0
        for n in range(N_PASSES):
            passes.append(self._take_pass(is_first=n == 0))
            if self._problem(passes[-1]):
                time.sleep(PAUSE_S * 2**n)
                continue
            n_fine += 1
            if n_fine > MOST_FINE:
                return None
        return self._problem(_least(passes))

    def _choose_count(self) -> int:
        output_bytes = self._reference.output_bytes
        fitting = PASS_BYTES // max(self._stride, output_bytes)
        least = LEAST_CALLS if self._timed_s < LEAST_S else 1
        wanted = max(least, math.ceil(PASS_S / max(self._timed_s, 1e-7)))
        count = max(1, min(MAX_CALLS, fitting, wanted))
        needed = count * (3 * self._stride + 2 * output_bytes)
        return count if needed <= MEMORY_SHARE * admission.available_bytes() else 0

    def _map(self) -> None:
        size = self._count * self._stride
        self._fresh, self._theirs, self._ours = (SharedMemory(size) for _ in range(3))
        self._contestant.bind_copies(ARENA, self._theirs, self._count, self._stride)
        self._reference.bind_copies(ARENA, self._ours, self._count, self._stride)
        order = [f"{ARENA}:{i}" for i in range(self._count)]
        for i in range(self._count):
            self._put(self._theirs, i, self._draws[i % len(self._draws)].inputs)
        self._ours.copy_from(self._theirs)
        self._upload()
        self._time(order)  # not counted: takes pages into both processes
        self._time_reference(order)

    def _take_pass(self, *, is_first: bool) -> _Pass:
        order = [f"{ARENA}:{i}" for i in self._rng.sample(range(self._count), self._count)]
        known_draws = [self._rng.choice(self._draws) for _ in range(self._count)]
        for i, draw in enumerate(known_draws):
            self._put(self._theirs, i, draw.inputs)
        self._contestant.upload(ARENA)
        known = self._time(order)
        for position in self._rng.sample(range(self._count), min(2, self._count)):
            self._check_output(position, known_draws[_index(order[position])])
        self._reference.draw_more(self._fresh, self._count)
        unseen_draw = self._reference.unseen_draw(is_new=not is_first)
        position = self._rng.randrange(self._count)
        if unseen_draw is not None:
            self._put(self._fresh, _index(order[position]), unseen_draw.inputs)
        self._theirs.copy_from(self._fresh)
        self._contestant.upload(ARENA)
        unseen = self._time(order)
        unseen_cpu = self._contestant.watch.command_s / self._count
        first, second = self._fetching_s(position), self._fetching_s(position)
        late = min(a - b for a, b in zip(first, second, strict=True))
        if unseen_draw is not None:
            self._check_output(position, unseen_draw)
        self._ours.copy_from(self._fresh)
        self._reference.upload(ARENA)
        warm = self._time_reference(self._reference.set_names, self._count)
        return _Pass(known, unseen, unseen_cpu, self._time_reference(order), warm, late)

    def _put(self, memory: SharedMemory, index: int, inputs: SharedMemory) -> None:
        memory.bytes[index * self._stride : (index + 1) * self._stride] = inputs.bytes

    def _upload(self) -> None:
        self._contestant.upload(ARENA)
        self._reference.upload(ARENA)

    def _time(self, order: list[str]) -> float:
        self._contestant.forget_kept()
        self._contestant.time([next(iter(self._contestant.slots))], 1)  # wakes threads up
        begin = time.perf_counter()
        self._contestant.replay(order)
        return (time.perf_counter() - begin) / self._count

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

    def _fetching_s(self, position: int) -> tuple[float, float]:
        """Return what reading an output takes, by the clock and of its process's processor time.

        Late work takes both; being interrupted takes only one of them.
        """
        begin = time.perf_counter()
        self._contestant.fetch(position)
        return time.perf_counter() - begin, self._contestant.watch.command_s

    def _check_output(self, position: int, draw: Draw) -> None:
        if not still_matches(self._reference, draw, self._contestant.fetch(position)):
            raise Failure(
                Status.REJECTED,
                f"call {position + 1} of {self._count} without a pause between them gave a wrong output",
                check=Check.REPLAY,
            )

    def _problem(self, seen: _Pass) -> str | None:
        slack = SLACK_S / self._count
        if seen.late > LATE_SHARE * seen.unseen + SLACK_S:
            return (
                f"reading an output took {_ms(seen.late)} more for the first time: it was not complete when "
                "the call returned"
            )
        if seen.unseen > UNSEEN_FACTOR * seen.known + slack:
            return (
                f"{_ms(seen.unseen)} a call on inputs that it has never seen, "
                f"{_ms(seen.known)} on those that it knows"
            )
        colder = max(seen.reference - seen.warm, 0.0)
        is_slow, is_busy = (
            took > TIMED_FACTOR * (self._slowdown(seen) * timed + colder) + slack
            for took, timed in ((seen.unseen, self._timed_s), (seen.unseen_cpu, self._timed_cpu_s))
        )
        if is_slow and is_busy:
            timed = _ms(self._timed_s)
            return f"{_ms(seen.unseen)} a call when every output is kept, {timed} when it was timed"
        return None

    def _slowdown(self, seen: _Pass) -> float:
        """Say how much slower the machine is now than while it was timed, as the reference tells."""
        if not self._eager_s:
            return 1.0
        return min(max(seen.warm / self._eager_s, 1.0), MOST_SLOWDOWN)


def _least(passes: Sequence[_Pass]) -> _Pass:
    """Return the least of every figure."""
    return _Pass(*(min(figures) for figures in zip(*map(astuple, passes), strict=True)))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _index(name: str) -> int:
    return int(name.rpartition(":")[2])
