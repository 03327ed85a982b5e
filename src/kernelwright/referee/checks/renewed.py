"""What did timed calls save because the same values came again, and because calls waited in a queue?

Timed calls go round two or three input sets whose values stay. Here the parent writes the values of every
call into its set while the calls go on: in one series the values that lie there already, in another values
that nobody has seen. A candidate cannot tell the first series from a timed one, nor the second before it has
looked at its inputs. So what the second takes longer is what the timed calls saved because values came again,
whatever the candidate goes by. The timing is corrected by it, less what it costs the reference: reading what
no cache holds takes both of them longer, by seconds and not by a factor.

Timed calls are also fed ahead, and a candidate can read in the queue which ones wait, and compute them
together. So in further series each call's values are written, and the call is fed, when the one before has
ended. What they take longer than timed calls, beyond what that costs the reference, the queue has saved.

A correction is no verdict. It counts only where it is found twice here, and again in other processes.
"""

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence

from kernelwright.core.evaluation import Check, Status
from kernelwright.referee.checks.verify import matches_on
from kernelwright.referee.session.call_queue import Bytes
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample, WeightState
from kernelwright.referee.session.shared_memory import TensorMemory

MOST_CALLS, MANY_BYTES, SERIES_S = 48, 16 << 20, 0.01
"""A series has as many calls on new values as take ``SERIES_S``, at most ``MOST_CALLS``, and no more inputs
than ``MANY_BYTES``, but at least one call for each input set."""
SLOW_S = 0.05
"""Timings of slower candidates are not corrected: the replay alone limits them."""
LEAST_PAIRS, MOST_PAIRS = 3, 9
"""Fewest pairs of series, and most while they show a difference."""
APPARENT, MOSTLY = 0.1, 0.75
"""New values cost more where they cost more than this share of a call on known ones, and in this share of the
pairs at least. All else is noise."""
SLACK = 2.0
"""How many times the seconds that new values cost the reference they may cost the candidate."""
FED_AHEAD, HANDED = 1.5, 1.5
"""Calls that come one at a time may take ``FED_AHEAD`` times as long as timed ones, and besides ``HANDED``
times what a call of the reference takes longer when calls come so."""
AWAKE_S, SPINNING_S, SPARE_CORE = 2e-5, 1e-4, 1.2
"""Seconds that such a call may take besides. ``SPINNING_S`` holds for a candidate that keeps more than
``SPARE_CORE`` cores busy: its idle threads spin for that long on the core that the parent needs."""
LEAST_SINGLE, MOST_SINGLE = 3, 5
"""Series of such calls: one where it takes no longer, else so many at least, and so many at most."""
CUT_SHORT = 0.4
"""Before this share of the pairs a series on new values ends at a random call, has outputs compared and does
not count. Only the outputs of a series' last calls can be compared: nobody may know which these will be."""
CUT_SINGLE = 2
"""So many series of calls that come one at a time end at a random call, besides one that counts."""
N_LOOKED, LOOKED_MS = 3, 5.0
"""Outputs on new values that a series compares; one where the reference takes longer than ``LOOKED_MS``."""


class Renewal:
    """Series of calls of one candidate, after its replay."""

    def __init__(
        self, worker: CandidateProcess, draws: Sequence[InputSample], state: WeightState, timed_s: float
    ) -> None:
        """``draws``: the samples that were timed. ``timed_s``: what a timed call of the candidate took."""
        self._worker, self._reference, self._state = worker, worker.reference, state
        self._rng = random.Random()
        self._timed_s = timed_s
        self._draws = dict(zip(self._rng.sample(list(worker.slots), len(draws)), draws, strict=True))
        self._stride = next(iter(worker.slots.values())).size
        fitting = max(MANY_BYTES // self._stride, len(draws))
        wanted = max(math.ceil(SERIES_S / timed_s), len(draws))
        room = self._reference.replay_bytes // (4 * self._stride)
        self._count = min(MOST_CALLS, wanted, fitting, room)
        self._lead = self._count // 2
        """Calls on known values before those that are compared."""

    def factor(self, eager_s: float | None) -> float:
        """Return by what factor timings of the candidate are too low, at least 1; raises Failure.

        ``eager_s``: what a timed call of the reference took, where it was timed.
        """
        if self._reference.device.is_apart or self._timed_s > SLOW_S or self._count < len(self._draws):
            return 1.0
        self._new, self._again = (TensorMemory(self._count * self._stride) for _ in range(2))
        self._worker.load_state(self._state)
        self._reference.load_state(self._state)
        is_beside_reference = eager_s is not None
        by_values = self._twice(lambda: self._factor(is_beside_reference=is_beside_reference), 1.0 + APPARENT)
        by_queue = self._twice(self._single_factor, FED_AHEAD) if is_beside_reference else 1.0
        return max(by_values, by_queue)

    @staticmethod
    def _twice(find: Callable[[], float], apparent: float) -> float:
        """Return the second of two factors that are both more than ``apparent``, else 1."""
        if find() <= apparent:
            return 1.0
        found = find()
        return found if found > apparent else 1.0

    def _single_factor(self) -> float:
        """Return how many times as long calls take that come one at a time, less the reference's extra."""
        busy_cores = self._worker.timed_cpu_s / self._timed_s
        took_s = single_s = ahead_s = math.inf
        cut_before = self._rng.randrange(CUT_SINGLE + 1)
        for number in range(1, MOST_SINGLE + 1):
            for _ in range(cut_before if number == 1 else 0):
                self._call_some_singly()
            self._reference.draw_more(self._new, self._count)
            values = [self._new.part(i, self._stride).bytes for i in range(self._count)]
            took_s = min(took_s, self._call_candidate(values, True, is_single=True) / self._count)
            for _ in range(CUT_SINGLE - cut_before if number == 1 else 0):
                self._call_some_singly()
            if took_s <= allowed_s(self._timed_s, busy_cores):
                return 1.0
            with self._worker.held_back():
                single_s = min(single_s, self._call_reference(values, True, is_single=True) / self._count)
                ahead = self._reference.make_calls(list(self._draws), self._count)
                ahead_s = min(ahead_s, ahead.seconds / self._count)
            handing_s = max(single_s - ahead_s, 0.0)
            if number >= LEAST_SINGLE and took_s <= allowed_s(self._timed_s, busy_cores, handing_s):
                return 1.0
        return (took_s - handing_s) / self._timed_s

    def _factor(self, *, is_beside_reference: bool) -> float:
        known_s, new_s = self._series(self._call_candidate)
        apparent_s = self._apparent_s(known_s)
        extra_s = extra_of(known_s, new_s, self._count, apparent_s=apparent_s)
        if extra_s and is_beside_reference:
            with self._worker.held_back():
                extra_s -= SLACK * extra_of(*self._series(self._call_reference), self._count)
        # a series also waits for the parent, but for new values no longer
        return 1.0 + max(extra_s, 0.0) / min(apparent_s / APPARENT, self._timed_s)

    def _apparent_s(self, known_s: Sequence[float]) -> float:
        """Return how much longer a call may take by chance."""
        return APPARENT * min(known_s) / (self._lead + self._count)

    def _series(self, call: Callable[[Sequence[Bytes], bool], float]) -> tuple[list[float], list[float]]:
        """Return the seconds of series on known values, and of series that end with new ones."""
        known_s: list[float] = []
        new_s: list[float] = []
        while len(new_s) < MOST_PAIRS:
            if len(new_s) >= LEAST_PAIRS and min(new_s) - min(known_s) <= self._count * self._apparent_s(
                known_s
            ):
                break
            if call == self._call_candidate and self._rng.random() < self._cut_short:
                self._call_some()
            self._reference.draw_more(self._new, self._count)  # before both: they find the machine alike
            self._copy_known()
            for series_s in self._rng.sample((known_s, new_s), 2):
                is_new = series_s is new_s
                series_s.append(call(self._values(is_new=is_new), is_new))
        return known_s, new_s

    @property
    def _cut_short(self) -> float:
        """Share of the pairs before which a series ends early; 0 where all outputs of a series are there."""
        return CUT_SHORT if self._count > self._worker.child.queue.ring else 0.0

    def _call_some(self) -> None:
        """Make a series that ends at a random call, on values that no counted series has."""
        count = self._rng.randint(1, self._count)
        self._reference.draw_more(self._new, count)
        lead = self._known(self._rng.randint(1, self._lead + 1))
        self._call_candidate([*lead, *(self._new.part(i, self._stride).bytes for i in range(count))], True)

    def _call_some_singly(self) -> None:
        """Make a series of calls that come one at a time and end at a random one."""
        count = self._rng.randint(1, self._count)
        self._reference.draw_more(self._new, count)
        values = [self._new.part(i, self._stride).bytes for i in range(count)]
        self._call_candidate(values, True, is_single=True)

    def _known(self, count: int) -> list[Bytes]:
        return list(itertools.islice(itertools.cycle(d.inputs.bytes for d in self._draws.values()), count))

    def _copy_known(self) -> None:
        """Copy known values to where they are as cold in the parent's caches as new ones."""
        for i, value in enumerate(self._known(self._count)):
            self._again.part(i, self._stride).bytes[:] = value

    def _values(self, *, is_new: bool) -> list[Bytes]:
        memory = self._new if is_new else self._again
        return self._known(self._lead) + [memory.part(i, self._stride).bytes for i in range(self._count)]

    def _call_candidate(self, values: Sequence[Bytes], is_new: bool, *, is_single: bool = False) -> float:
        worker, sets = self._worker, list(self._draws)
        for name, draw in self._draws.items():
            worker.fill(name, draw.inputs)
        worker.spoil()
        worker.time(sets, len(sets), per_call_s=self._timed_s)  # wakes up threads
        n_looked = N_LOOKED if self._reference.eager_ms <= LOOKED_MS else 1
        made = worker.run_written(sets, values, n_looked=n_looked, is_single=is_single)
        for position, output in worker.looked if is_new else ():
            self._check(position, values, output)
        return made.seconds

    def _call_reference(self, values: Sequence[Bytes], is_new: bool, *, is_single: bool = False) -> float:
        reference, sets = self._reference, list(self._draws)
        for name, draw in self._draws.items():
            reference.fill(name, draw.inputs)
        reference.make_calls(sets, len(sets))
        return reference.run_written(sets, values, is_single=is_single).seconds

    def _check(self, position: int, values: Sequence[Bytes], output: TensorMemory) -> None:
        if not matches_on(self._reference, values[position], self._state, output):
            detail = "a call returned a wrong output when its inputs had changed since the call before"
            raise Failure(Status.REJECTED, detail, check=Check.REPLAY)


def allowed_s(timed_s: float, busy_cores: float, handing_s: float = 0.0) -> float:
    """Return the seconds that a call may take when calls come one at a time.

    Args:
        timed_s: seconds of a timed call.
        busy_cores: how many cores the candidate kept busy then.
        handing_s: what a call of the reference takes longer when calls come so.
    """
    granted_s = SPINNING_S if busy_cores > SPARE_CORE else AWAKE_S
    return FED_AHEAD * timed_s + HANDED * handing_s + granted_s


def extra_of(
    known_s: Sequence[float], new_s: Sequence[float], count: int, *, apparent_s: float = 0.0
) -> float:
    """Return what a call on new values takes longer, in seconds; 0 where that is no more than noise.

    Args:
        known_s: seconds of series of which all values were known.
        new_s: seconds of series that end with ``count`` new values.
        apparent_s: what is noise in any case.
    """
    extra_s = min((of(new_s) - of(known_s)) / count for of in (min, statistics.median))
    n_longer = sum(new > known for known, new in zip(known_s, new_s, strict=True))
    return extra_s if extra_s > apparent_s and n_longer >= MOSTLY * len(new_s) else 0.0
