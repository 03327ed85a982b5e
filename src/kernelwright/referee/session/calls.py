"""Has one process call its module. Reference and candidate go through the same code for every purpose."""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.referee.session.call_queue import (
    MARK,
    NOTHING,
    RELEASE,
    RING,
    SETTLE,
    SYNC,
    Bytes,
    Change,
)
from kernelwright.referee.session.launcher import Child
from kernelwright.referee.session.shared_memory import TensorMemory
from kernelwright.referee.worker.layouts import arena_of

RING_BYTES, MANY_BYTES = 1 << 20, 64 << 20
"""Outputs of the last calls that are kept: as many as fit, at most ``RING``, and at least four calls', or two
calls' where four take more than ``MANY_BYTES``. No more calls are fed ahead: whatever a candidate reads in
the queue, the output of the call that it is in may still be compared."""
EARLY = 0
"""The place where the output of an early timed call is kept until the end."""
SLOW_S = 0.002
"""Slower calls are not followed by further ones that do not count: one would take longer than the stop."""
LEAD_S = 0.003
"""When something is written between calls, as many of those that are fed are left as take about this long."""
REST_S, UNFED_CALLS = 0.001, 2
"""After one of every two changes no further calls are fed until as many are left as take about so long; so
many at least begin before: whoever looks at what was fed does not see when something was written."""
MOVABLE_CALLS = 3
"""Something can be written between so many calls: one has ended, one goes on, one follows."""
Writes = Sequence[tuple[Bytes, Bytes]]
"""Where to, and what."""
Spoil = Callable[[Sequence[int]], None]
"""Writes to outputs of calls of these numbers."""


@dataclass(frozen=True)
class Made:
    """Calls that a process has made."""

    first: int
    """Number of the first of them."""
    counted: int
    """How many of them count."""
    total: int
    """How many have been asked for."""
    seconds: float
    """From the first to the last that counts, by the parent's clock."""
    own_s: float
    """The same by the process's clock."""
    unsure: range = range(0)
    """Positions of the calls of which it is not sure whether they saw what was written. Later ones saw it."""


class Calls:
    """Argument sets by number, and the calls on them."""

    def __init__(self, child: Child, *, is_apart: bool) -> None:
        """``is_apart``: tensors live on a device, which has to be waited for."""
        self._child, self._is_apart = child, is_apart
        self._numbers: dict[str, int] = {}
        self._rests: list[bool] = []
        self._free = 0

    def bind(self, names: Iterable[str]) -> dict[str, int]:
        """Give numbers to argument sets; the command ``bind`` takes them."""
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = self._next_number()
        return {name: self._numbers[name] for name in names}

    def _next_number(self) -> int:
        used = set(self._numbers.values())
        return next(n for n in range(len(used) + 1) if n not in used)

    def _next_rests(self) -> bool:
        """Return, of every two changes, once that nothing is fed after it: which of them is a lot."""
        if not self._rests:
            self._rests = [True, False] if secrets.randbelow(2) else [False, True]
        return self._rests.pop()

    def forget(self, arena: str) -> None:
        """Free the numbers of an arena's sets, which the process unmaps with its next command."""
        for name in [name for name in self._numbers if arena_of(name) == arena]:
            del self._numbers[name]

    def keep_last(self, output_bytes: int, timeout_s: float, most: int = RING) -> None:
        """Have the outputs of the last calls kept, as many as there is room for; those of before go."""
        least = 4 if 4 * output_bytes <= MANY_BYTES else 2
        count = min(max(RING_BYTES // max(output_bytes, 1), least), most)
        self._child.call("keep_last", timeout_s, count=count, bytes=output_bytes)
        self._child.queue.ring = count

    def make(
        self, names: Sequence[str], counted: int, timeout_s: float, *, per_call_s: float = 1.0,
        keep: Sequence[int] = (), writes: Writes = (), spoil: Spoil | None = None,
    ) -> Made:  # fmt: skip
        """Call on these sets, going round, until ``counted`` calls are done.

        Further calls may follow that do not count. ``keep``: places for the outputs of the first calls.
        ``writes`` are made while the calls go on, without a pause; not on a device. So does ``spoil`` write
        to outputs, in a series without ``writes`` that is long enough for these to be gone at its end. Raises
        as Child.feed.
        """
        queue = self._child.queue
        n_extra = 0 if self._is_apart or per_call_s > SLOW_S else secrets.randbelow(queue.ring // 2) + 1
        total = counted + n_extra
        numbers = [self._numbers[name] for name in names]
        tokens = [numbers[i % len(numbers)] for i in range(total)]
        for i, place in enumerate(keep):
            if place is not None:
                tokens[i] |= (place + 1) << 32
        first = queue.n_calls
        if self._is_apart:
            self._make_apart(tokens, timeout_s)
        elif spoil and counted > 2 * queue.ring:
            self._make_around(spoil, tokens, timeout_s, n_extra, n_kept=len(keep))
        elif total:
            change = (
                change_between(writes, counted, total, queue.ring, per_call_s, rests=self._next_rests())
                if writes
                else None
            )
            self._child.feed(tokens, timeout_s, n_extra=n_extra, ahead=queue.ring, change=change)
        own_ns = queue.span_ns(first, first + counted - 1) if counted else 0
        seconds = self._child.answered_in_s if total else 0.0
        return Made(first, counted, total, seconds, own_ns / 1e9, queue.unsure)

    def make_written(
        self,
        sets: Mapping[str, TensorMemory],
        values: Sequence[Bytes],
        timeout_s: float,
        *,
        is_single: bool = False,
    ) -> Made:
        """Call once on each of ``values``, going round the sets; each is written when its call is fed.

        ``is_single``: each call is written and fed when the one before has ended.
        """
        queue = self._child.queue
        first, total = queue.n_calls, len(values)
        places = [memory.bytes for memory in sets.values()]
        numbers = [self._numbers[name] for name in sets]
        ahead = 0 if is_single else len(sets) - 1
        self._child.feed_written(numbers, places, values, timeout_s, ahead=ahead)
        own_ns = queue.span_ns(first, first + total - 1)
        return Made(first, total, total, self._child.answered_in_s, own_ns / 1e9)

    def _make_around(
        self, spoil: Spoil, tokens: Sequence[int], timeout_s: float, n_extra: int, *, n_kept: int
    ) -> None:
        """Make calls, with outputs written to while some that were fed are left.

        None of these outputs is released before the rest is fed. None is compared at the end: those of the
        first ``n_kept`` calls stay, and the others are released until then.
        """
        queue, ring = self._child.queue, self._child.queue.ring
        first, lead = queue.n_calls, ring // 2
        at = ring + 1 + secrets.randbelow(len(tokens) - n_extra - 2 * ring)
        begin = time.perf_counter()
        self._child.feed(tokens[:at], timeout_s, n_extra=lead, ahead=ring)
        fed = queue.n_calls - first  # perhaps fewer than ``at``
        spoil(range(first + max(fed - ring, n_kept), first + at - lead))
        self._child.feed(tokens[fed:], timeout_s, n_extra=n_extra, ahead=ring, goes_on=True)
        self._child.answered_in_s = time.perf_counter() - begin

    def _make_apart(self, tokens: Sequence[int], timeout_s: float) -> None:
        self._child.drain(timeout_s)
        self._child.queue.push(SETTLE)
        self._child.drain(timeout_s)
        self._child.feed([MARK, *tokens, SYNC], timeout_s, ahead=512)
        self._child.queue.n_calls -= 2  # the first and the last token were no calls

    def ask(self, timeout_s: float) -> float:
        """Return the seconds that asking for nothing takes."""
        self._child.feed([NOTHING], timeout_s)
        self._child.queue.n_calls -= 1  # it was no call
        return self._child.answered_in_s

    def release(self) -> None:
        """Release the outputs that were kept, except the early one."""
        self._child.queue.push(RELEASE | 1 << 32)

    def last(self) -> Any:
        """Return what is noted of the last call."""
        queue = self._child.queue
        return queue.record(queue.n_calls - 1)


def change_between(
    writes: Writes, counted: int, total: int, ring: int, per_call_s: float, *, rests: bool
) -> Change:
    """Choose by lot where in a series something is written: calls after it count and have outputs kept.

    Where there are fewer calls than that takes, it is written before the first is fed.
    """
    if counted < MOVABLE_CALLS:
        return Change(0, 0, 0, writes)
    lead = rest = math.ceil(LEAD_S / per_call_s)
    if rests:
        rest = math.ceil(REST_S / per_call_s)
        lead = max(lead, rest + UNFED_CALLS)
    lead = max(1, min(lead, ring // 2, counted - MOVABLE_CALLS + 1))
    first = max(lead + 1, total - ring)
    return Change(first + secrets.randbelow(counted - first), lead, min(lead, rest), writes)
