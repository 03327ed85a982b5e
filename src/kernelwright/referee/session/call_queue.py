"""The parent's end of the loop in ``worker/call_loop.cpp``: feeds tokens and reads what calls returned.

Whatever stands in the queue's memory may have been written by the candidate. The parent counts the calls
itself, and believes the description of an output only as far as the bytes at the described address are right.
"""

import ctypes
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelwright.core.errors import MachineError
from kernelwright.machine.compiler import CompileFailure, compile_library
from kernelwright.referee.session.shared_memory import SharedMemory, address_of

Bytes = npt.NDArray[np.uint8]
FLAGS = ("-O2", "-std=c++17")
TOKENS, RING, KEPT = 4096, 256, 1024
NOTHING, RELEASE = 0xFFFFFF00, 0xFFFFFF01
MARK, SYNC, SETTLE, ATTEND = 0xFFFFFFFC, 0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF
"""What a token can say instead of an argument set's number."""
OUTPUT = np.dtype(
    [
        ("kind", "<u4"), ("dtype", "<i4"), ("device", "<i4"), ("layout", "<i4"), ("ndim", "<i4"),
        ("unused", "<u4"), ("size", "<i8", 10), ("stride", "<i8", 10), ("data", "<u8"), ("offset", "<i8"),
        ("storage_bytes", "<i8"),
    ]
)  # fmt: skip
RECORD = np.dtype(
    [
        ("number", "<u8"), ("began", "<i8"), ("ended", "<i8"), ("n_outputs", "<u4"), ("is_tuple", "<u4"),
        ("n_args", "<u4"), ("has_gradients", "<u4"), ("args", "<u8", (16, 2)), ("outputs", OUTPUT, 32),
    ]
)  # fmt: skip
RECORDS_AT = 36864
TIMES_AT = RECORDS_AT + (RING + KEPT) * RECORD.itemsize
BYTES = TIMES_AT + TOKENS * 16


SURE_NS = 20_000
"""A call that begins so much later than something was written certainly sees it: clocks of cores differ."""


class _Write(ctypes.Structure):
    _fields_ = (("to", ctypes.c_uint64), ("source", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


class _Change(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_uint32), ("lead", ctypes.c_uint32), ("rest", ctypes.c_uint32),
        ("writes", ctypes.c_uint32), ("unsure", ctypes.c_uint32), ("written_at", ctypes.c_int64),
        ("write", ctypes.POINTER(_Write)),
    )  # fmt: skip


@dataclass(frozen=True)
class Change:
    """Bytes that are written while calls go on."""

    at: int
    """Calls that are fed before; later ones certainly begin when all is written."""
    lead: int
    """About so many of them are left then, so that there is no pause."""
    rest: int
    """Further ones are fed when so many of them are left, at most ``lead``."""
    writes: Sequence[tuple[Bytes, Bytes]]
    """Where to, and what: under each name of a parameter that a candidate has untied."""


class FeedEnd(IntEnum):
    """How feeding ended."""

    DONE = 0
    LATE = 1
    GONE = 2
    RAISED = 3


def build_loop(cache_dir: Path) -> Path:
    """Build the loop, once for a cache folder; raises MachineError where there is no working compiler."""
    source = resources.files("kernelwright.referee.worker").joinpath("call_loop.cpp").read_text("utf-8")
    built = compile_library(source, FLAGS, cache_dir / "loop")
    if isinstance(built, CompileFailure):
        raise MachineError(f"the referee's own loop does not compile: {built.log.strip().splitlines()[0]}")
    return built.path


@cache
def _library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


class CallQueue:
    """One process's queue."""

    def __init__(self, library: Path, sock: int) -> None:
        """``sock``: a descriptor that hangs up when the process ends."""
        self._lib, self._sock = _library(library), sock
        self.memory = SharedMemory(BYTES)
        self._begin = ctypes.c_void_p(address_of(self.memory.bytes))
        self._fed = ctypes.c_uint32(0)
        self.n_calls = 0
        """Calls fed so far: the number of the next one."""
        self.ring = 2
        """How many of the last calls' outputs the process keeps."""
        self.unsure = range(0)
        """Of the calls fed last, those of which it is not sure what they saw of a change. Those before saw
        nothing of it, those after all of it."""
        records = self.memory.bytes[RECORDS_AT:TIMES_AT].view(RECORD)
        self._last, self._kept = records[:RING], records[RING:]
        self._times = self.memory.bytes[TIMES_AT:BYTES].view("<i8").reshape(TOKENS, 2)

    def push(self, token: int) -> None:
        """Add one token."""
        self._lib.call_push(self._begin, ctypes.byref(self._fed), ctypes.c_uint64(token))

    def drain(self, timeout_s: float) -> FeedEnd:
        """Wait until all tokens are done."""
        return FeedEnd(self._lib.call_drain(self._begin, self._fed, ctypes.c_double(timeout_s), self._sock))

    def feed(
        self,
        calls: Sequence[int],
        timeout_s: float,
        *,
        n_extra: int,
        ahead: int,
        change: Change | None = None,
    ) -> tuple[FeedEnd, float]:
        """Feed calls and return when all but the last ``n_extra`` of them are done; with the seconds taken.

        A call is an argument set's number, plus the place where its output is kept, from 1 on, times 2**32.
        Of those of which it is not sure whether they saw a ``change``, ``unsure`` tells.
        """
        tokens = np.array(calls, dtype=np.uint64)
        made = _made(change) if change else None
        elapsed, before = ctypes.c_int64(0), self._fed.value
        how = self._lib.call_feed(
            self._begin, ctypes.byref(self._fed), ctypes.c_void_p(address_of(tokens)),
            len(calls) - n_extra, len(calls), ahead, ctypes.c_uint64(secrets.randbits(63)),
            ctypes.c_double(timeout_s), self._sock, ctypes.byref(elapsed),
            ctypes.byref(made) if made else None,
        )  # fmt: skip
        self.unsure = self._unsure(made) if made else range(0)
        self.n_calls += (self._fed.value - before) % 2**32
        return FeedEnd(how), elapsed.value / 1e9

    def _unsure(self, made: _Change) -> range:
        """Return the calls of the series just fed of which it is not sure what they saw of a change.

        Those fed later are sure. So are those that began a little after it by the process's clock, which is
        the parent's. Who notes a later time is judged by weights that he may not have seen.
        """
        earliest, latest = made.written_at + SURE_NS, time.monotonic_ns()
        for at in range(made.unsure, made.at):
            if earliest < self._times[(self.n_calls + at) % TOKENS, 0] <= latest:
                return range(made.unsure, at)
        return range(made.unsure, made.at)

    def feed_written(
        self,
        numbers: Sequence[int],
        places: Sequence[Bytes],
        values: Sequence[Bytes],
        timeout_s: float,
        *,
        ahead: int,
    ) -> tuple[FeedEnd, float]:
        """Feed one call for each of ``values``, written to the call's argument set just before it.

        Calls go round the argument sets ``numbers``, whose memory are ``places``. At most ``ahead`` calls,
        fewer than the sets, wait while another one goes on. Returns as ``feed``.
        """
        tokens = np.array(numbers, dtype=np.uint64)
        to, come = (np.array([address_of(one) for one in ones], dtype=np.uint64) for ones in (places, values))
        elapsed, before = ctypes.c_int64(0), self._fed.value
        how = self._lib.call_feed_written(
            self._begin, ctypes.byref(self._fed), ctypes.c_void_p(address_of(tokens)),
            ctypes.c_void_p(address_of(to)), len(numbers), ctypes.c_void_p(address_of(come)),
            ctypes.c_uint64(places[0].size), len(values), ahead, ctypes.c_double(timeout_s), self._sock,
            ctypes.byref(elapsed),
        )  # fmt: skip
        self.n_calls += (self._fed.value - before) % 2**32
        return FeedEnd(how), elapsed.value / 1e9

    def record(self, number: int) -> Any:
        """Return a copy of what is noted of the call of this number, one of the last in the ring."""
        return self._last[number % self.ring].copy()

    def kept(self, place: int) -> Any:
        """Return a copy of what is noted of the call whose output is kept in this place."""
        return self._kept[place].copy()

    def span_ns(self, first: int, last: int) -> int:
        """Return the time from the begin of one call to the end of another, by the process's clock."""
        return int(self._times[last % TOKENS, 1]) - int(self._times[first % TOKENS, 0])


def _made(change: Change) -> _Change:
    """Return a change as the loop takes it; the arrays must live as long."""
    writes = [_Write(address_of(to), address_of(source), source.size) for to, source in change.writes]
    array = (_Write * len(writes))(*writes)  # the structure keeps it
    return _Change(change.at, change.lead, change.rest, len(writes), 0, 0, array)
