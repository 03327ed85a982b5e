"""Processes and what is below them, as the kernel lists them."""

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Have every orphan of what is started here become a child of this process, so that none is missed."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def children_of(pid: int, states: str = "RSDTtIW") -> list[int]:
    """Return the pids of a process's children in some states: those that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] in states:
                    found.append(int(entry.name))
    return found


def descendants_of(pid: int) -> Iterator[int]:
    """Yield the pids of everything below a process."""
    for child in children_of(pid):
        yield child
        yield from descendants_of(child)


def command_of(pid: int) -> str:
    """Return a process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ").strip()
    except OSError:
        return ""


def victims(main: int, victim: str) -> list[int]:
    """Return the pids that a kill hits: the ``group``, the ``main`` one, its ``zygote``, or ``child``."""
    if victim == "main":
        return [main]
    below = list(descendants_of(main))
    if victim == "group":
        return [main, *below]
    zygotes = [pid for pid in below if "referee.zygote" in command_of(pid)]
    if victim == "zygote":
        return zygotes[:1]
    forked = [pid for pid in below if zygotes and pid != zygotes[0] and pid in descendants_of(zygotes[0])]
    return forked[-1:]
