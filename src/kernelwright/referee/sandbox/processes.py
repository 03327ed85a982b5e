"""Processes as /proc shows them: state, children, memory."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

STATE, PARENT, SESSION, MINOR_FAULTS, WAITED_FOR, RESIDENT = 0, 1, 3, 7, 13, 21
"""Places in what :func:`stat_of` returns. ``WAITED_FOR`` and the next one hold the ticks of children that
were waited for: in user mode, in system mode."""
ENDED = (None, "Z", "X")
_COUNTED = ("Pss_Anon:", "Pss_Shmem:")
_BLOCK_BYTES = 512
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command's name; empty when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def state_of(pid: int) -> str | None:
    """Return the kernel's letter for the state of a process, None when it is gone."""
    stat = stat_of(pid)
    return stat[STATE] if stat else None


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            path = Path(f"/proc/{pid}/task/{task}/children")
            if not path.exists():
                return _children_by_search(pid)
            with contextlib.suppress(OSError):
                found += [int(word) for word in path.read_text(encoding="ascii").split()]
    return found


def _children_by_search(pid: int) -> list[int]:
    """Search all processes, where the kernel offers no list of children."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [other for other in pids if (stat := stat_of(other)) and int(stat[PARENT]) == pid]


def family_of(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children_of(one)
    return found


def resident_bytes(pid: int) -> int:
    """Return the bytes of all resident pages of a process, shared ones too; 0 when it is gone."""
    stat = stat_of(pid)
    return int(stat[RESIDENT]) * _PAGE_BYTES if stat else 0


def own_bytes(pid: int) -> int:
    """Return the bytes of anonymous and shared memory of a process; shared pages are divided among sharers.

    Where ``smaps_rollup`` cannot be read, counts all resident anonymous pages, also those that the process
    still shares with its parent since the fork.
    """
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith(_COUNTED))
    except (OSError, ValueError):
        return _anonymous_bytes(pid)


def unnamed_bytes(pids: Iterable[int]) -> int:
    """Return the bytes of all memfds (files in memory) that processes have open, each counted once.

    A memfd that is also mapped is counted in ``own_bytes`` as well.
    """
    found: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{name}"
                with contextlib.suppress(OSError):
                    if os.readlink(path).startswith("/memfd:"):
                        stat = os.stat(path)
                        found[stat.st_ino] = stat.st_blocks * _BLOCK_BYTES
    return sum(found.values())


def status_bytes(pid: int, name: str) -> int | None:
    """Return a size of ``/proc/PID/status``, such as ``VmHWM``, in bytes; None where it is not told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) << 10
    return None


def _anonymous_bytes(pid: int) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def folder_bytes(folder: str) -> int:
    """Return the bytes that the files below a folder take on disk."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
    return total
