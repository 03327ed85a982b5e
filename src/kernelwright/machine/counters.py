"""Hardware counters of a process, where the operating system and the machine provide them."""

import ctypes
import errno
import fcntl
import itertools
import os
import platform
import struct
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelwright.core.evidence import FactValue

_SYSCALL = {"x86_64": 298, "aarch64": 241, "arm64": 241}
"""Number of perf_event_open by machine."""
_HARDWARE = {"cycles": 0, "instructions": 1, "cache_references": 2, "cache_misses": 3}
"""PERF_TYPE_HARDWARE configurations. Source: linux/perf_event.h."""
_ATTRIBUTES = "IIQQQQQIIQ"
_ATTRIBUTES_BYTES = 112
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_ENABLE, _DISABLE = 0x2400, 0x2401
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


@dataclass(frozen=True)
class Availability:
    """Whether counters can be read, and why not."""

    available: bool
    reason: str = ""
    """Empty when available."""


@dataclass(frozen=True)
class Counts:
    """Events of user code during a measurement; None for an event that this machine does not count."""

    cycles: int | None = None
    instructions: int | None = None
    cache_references: int | None = None
    """Of the last level."""
    cache_misses: int | None = None

    def facts(self) -> dict[str, FactValue]:
        """Return the ``counters.*`` metrics."""
        return {
            "counters.ipc": _ratio(self.instructions, self.cycles),
            "counters.llc_miss_rate": _ratio(self.cache_misses, self.cache_references),
        }


def _ratio(above: int | None, below: int | None) -> float | None:
    return above / below if above is not None and below else None


@cache
def availability() -> Availability:
    """Try to count this process's cycles and instructions; never raises."""
    for event in ("cycles", "instructions"):
        opened = _open(event, os.getpid())
        if isinstance(opened, str):
            return Availability(False, opened)
        os.close(opened)
    return Availability(True)


def count_while(work: Callable[[], object], pid: int = 0) -> Counts:
    """Run ``work`` and return what the process ``pid`` (0: this one) did meanwhile.

    Counts the threads that the process has when ``work`` begins and those that they start.
    """
    with ExitStack() as stack:
        files: dict[str, list[int]] = {}
        for event, thread in itertools.product(_HARDWARE, _threads(pid or os.getpid())):
            opened = _open(event, thread)
            if isinstance(opened, int):
                files.setdefault(event, []).append(opened)
                stack.callback(os.close, opened)
        everything = [file for opened_files in files.values() for file in opened_files]
        for file in everything:
            fcntl.ioctl(file, _ENABLE, 0)
        work()
        for file in everything:
            fcntl.ioctl(file, _DISABLE, 0)
        return Counts(**{event: sum(map(_read, opened_files)) for event, opened_files in files.items()})


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return [pid]


def _read(file: int) -> int:
    count: int = struct.unpack("q", os.read(file, 8))[0]
    return count


def system_call_number() -> int | None:
    """Return the number of perf_event_open, None where it is not known."""
    return _SYSCALL.get(platform.machine()) if platform.system() == "Linux" else None


def _open(event: str, pid: int) -> int | str:
    """Return a file descriptor that counts the event, or the reason why there is none."""
    number = system_call_number()
    if number is None:
        return "hardware counters are read on Linux, on x86-64 and arm64 only"
    flags = _DISABLED | _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    packed = struct.pack(_ATTRIBUTES, 0, _ATTRIBUTES_BYTES, _HARDWARE[event], 0, 0, 0, flags, 0, 0, 0)
    attributes = ctypes.create_string_buffer(packed, _ATTRIBUTES_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    file: int = libc.syscall(ctypes.c_long(number), attributes, pid, -1, ctypes.c_int(-1), ctypes.c_ulong(0))
    return file if file >= 0 else explain_refusal(ctypes.get_errno())


def explain_refusal(error: int) -> str:
    """Say why perf_event_open failed."""
    if error in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "the machine has no hardware counters (usual on virtual machines)"
    if error in (errno.EACCES, errno.EPERM):
        return f"the kernel forbids it (perf_event_paranoid is {_paranoid_level()})"
    return f"perf_event_open: {os.strerror(error)}"


def _paranoid_level() -> str:
    try:
        return _PARANOID.read_text(encoding="utf-8").strip()
    except OSError:
        return "unknown"
