"""One account of processor time for all that a candidate ever started, whether it still runs or not.

Where this process may make a control group (cgroup v2), the candidate gets one of its own and the kernel
keeps the account, to a microsecond. Elsewhere the account is the sum over the keeper and everything below
it: a process's own clock, and what it has inherited from the children that it has waited for. Nothing is lost
there, since the keeper (or the init) adopts and reaps what its parent left, and since the filter of system
calls refuses to ignore SIGCHLD, after which the kernel would drop the time of children. Inherited time is
shown in ticks: of every living process, less than two ticks may be missing.
"""

import contextlib
import itertools
import os
import re
import time
from pathlib import Path
from typing import Protocol

from kernelwright.referee.sandbox.processes import WAITED_FOR, family_of, stat_of

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_NAME = "kernelwright-"
_MOUNTED = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup2 ", re.MULTILINE)
_OWN = re.compile(r"^0::(\S+)", re.MULTILINE)
_USED = re.compile(r"^usage_usec (\d+)", re.MULTILINE)
_EMPTY_S = 1.0
"""Seconds to wait for the end of the last process in a control group that is removed."""
_numbers = itertools.count()


class CpuAccount(Protocol):
    """Processor time of a set of processes; it never becomes less."""

    def seconds(self) -> float:
        """Return the processor time so far."""

    def close(self) -> None:
        """Give back what the account needed."""


class FamilyAccount:
    """The sum over a process, everything below it, and everything that any of them has waited for."""

    def __init__(self, keeper: int) -> None:
        self._keeper, self._last_s = keeper, 0.0

    def seconds(self) -> float:
        """Return the processor time so far; when all are gone, the last that was seen."""
        now_s = sum(_own_s(pid) + _inherited_s(pid) for pid in family_of(self._keeper))
        self._last_s = max(self._last_s, now_s)
        return self._last_s

    def close(self) -> None:
        """Do nothing."""


class GroupAccount:
    """The kernel's own account of a control group."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._last_s = folder, 0.0

    def seconds(self) -> float:
        """Return the processor time of the group so far; when it is gone, the last that was seen."""
        with contextlib.suppress(OSError, ValueError):
            for thread in (self._folder / "cgroup.threads").read_text(encoding="ascii").split():
                _thread_s(int(thread))  # brings the kernel's account of a running thread up to date
            found = _USED.search((self._folder / "cpu.stat").read_text(encoding="ascii"))
            self._last_s = max(self._last_s, int(found[1]) / 1e6 if found else 0.0)
        return self._last_s

    def close(self) -> None:
        """End what is left in the group and remove it."""
        with contextlib.suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1", encoding="ascii")
        deadline = time.monotonic() + _EMPTY_S
        while self._folder.exists() and time.monotonic() < deadline:
            try:
                self._folder.rmdir()
            except OSError:
                time.sleep(0.002)


def open_account(pid: int, keeper: int, *, may_group: bool = True) -> CpuAccount:
    """Open the account of a process that has run nothing untrusted yet.

    Args:
        pid: the process; what it starts from now on belongs to the account.
        keeper: the process above it, see ``enter.py``.
        may_group: try a control group; false where the process could leave it.
    """
    group = _make_group(pid) if may_group else None
    return FamilyAccount(keeper) if group is None else GroupAccount(group)


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, ended threads included; 0 when the process is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # Linux's id of that process's CPU clock
    except OSError:
        return 0.0


def _own_s(pid: int) -> float:
    """Return the same with running threads brought up to date: their time is else noted at a tick only."""
    with contextlib.suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            _thread_s(int(thread))
    return cpu_s(pid)


def _thread_s(thread: int) -> float:
    try:
        return time.clock_gettime((~thread << 3) | 6)
    except OSError:
        return 0.0


def _inherited_s(pid: int) -> float:
    stat = stat_of(pid)
    return sum(int(ticks) for ticks in stat[WAITED_FOR : WAITED_FOR + 2]) * TICK_S


def _make_group(pid: int) -> Path | None:
    """Make a control group below this process's own and move a process there; None where that fails."""
    place = _own_group()
    if place is None:
        return None
    folder = place / f"{_NAME}{os.getpid()}-{next(_numbers)}"
    try:
        _clear_up(place)
        folder.mkdir()
        if (folder / "cpu.weight").exists():
            raise OSError("a share of the processor of its own would change what is timed")
        (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
        if _USED.search((folder / "cpu.stat").read_text(encoding="ascii")):
            return folder
    except OSError:
        pass
    with contextlib.suppress(OSError):
        folder.rmdir()
    return None


def _own_group() -> Path | None:
    """Return the folder of this process's own control group, None where there is no cgroup v2."""
    try:
        mounted = _MOUNTED.search(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
        own = _OWN.search(Path("/proc/self/cgroup").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not mounted or not own:
        return None
    root, mount = mounted.groups()
    inside = own[1].removeprefix(root.rstrip("/")).lstrip("/")
    return Path(mount, inside) if os.access(Path(mount, inside), os.W_OK) else None


def _clear_up(place: Path) -> None:
    """Remove the empty groups of processes that were killed before they could."""
    for folder in place.glob(f"{_NAME}*-*"):
        owner = folder.name.removeprefix(_NAME).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
