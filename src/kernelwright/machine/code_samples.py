"""Where a process spends its processor time: samples of instruction addresses, taken by the operating system.

The process cannot see that it is sampled. Works without privileges where ``perf_event_paranoid`` is at most 2
and no filter of system calls forbids it, on virtual machines too: a timer of the kernel counts, not hardware.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Iterator
from typing import Self

from kernelwright.machine.counters import explain_refusal, system_call_number

PERIOD_S = 0.001
"""Processor time of a thread between two samples."""
_SOFTWARE, _CPU_CLOCK = 1, 0
_ADDRESS, _THREAD = 1 << 0, 1 << 1
_ATTRIBUTES = "IIQQQQQIIQ"
_ATTRIBUTES_BYTES = 112
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 8
_ENABLE, _DISABLE = 0x2400, 0x2401
_PAGES = 16
"""Of one processor's samples: room for more than two seconds of its time; what comes later is lost."""
_HEAD_AT = 1024
_RECORD, _SAMPLE = struct.Struct("IHH"), struct.Struct("QII")
_IS_SAMPLE = 9


class CodeSamples:
    """Samples of one process, of the threads and processes that it starts later included."""

    def __init__(self, pid: int) -> None:
        """Prepare to sample a process that has one thread.

        Raises:
            OSError: this machine does not let us; the message says why.
        """
        self._files: list[int] = []
        self._rings: list[mmap.mmap] = []
        try:
            for processor in sorted(os.sched_getaffinity(pid)):
                self._files.append(_open(pid, processor))
                ring = mmap.mmap(self._files[-1], (1 + _PAGES) * mmap.PAGESIZE)
                self._rings.append(ring)
        except (OSError, ValueError):
            self.close()
            raise

    def __enter__(self) -> Self:
        for file in self._files:
            fcntl.ioctl(file, _ENABLE, 0)
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files:
            fcntl.ioctl(file, _DISABLE, 0)

    def addresses(self) -> list[tuple[int, int]]:
        """Return (process, address of an instruction in user mode) for every sample so far."""
        return [sample for ring in self._rings for sample in _samples(ring)]

    def close(self) -> None:
        """Stop for good; a second call does nothing."""
        while self._rings:
            self._rings.pop().close()
        while self._files:
            os.close(self._files.pop())


def _samples(ring: mmap.mmap) -> Iterator[tuple[int, int]]:
    (head,) = struct.unpack_from("Q", ring, _HEAD_AT)
    at, end = mmap.PAGESIZE, mmap.PAGESIZE + min(head, _PAGES * mmap.PAGESIZE)
    while at + _RECORD.size <= end:
        kind, _, size = _RECORD.unpack_from(ring, at)
        if size < _RECORD.size or at + size > end:
            return
        if kind == _IS_SAMPLE:
            address, process, _ = _SAMPLE.unpack_from(ring, at + _RECORD.size)
            yield process, address
        at += size


def _open(pid: int, processor: int) -> int:
    number = system_call_number()
    if number is None:
        raise OSError(f"samples are not taken on {platform.system()}, {platform.machine()}")
    flags = _DISABLED | _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    packed = struct.pack(
        _ATTRIBUTES, _SOFTWARE, _ATTRIBUTES_BYTES, _CPU_CLOCK, int(PERIOD_S * 1e9), _ADDRESS | _THREAD, 0,
        flags, 0, 0, 0,
    )  # fmt: skip
    attributes = ctypes.create_string_buffer(packed, _ATTRIBUTES_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    file: int = libc.syscall(
        ctypes.c_long(number), attributes, pid, processor, ctypes.c_int(-1), ctypes.c_ulong(_CLOSE_ON_EXEC)
    )
    if file < 0:
        raise OSError(explain_refusal(ctypes.get_errno()))
    return file
