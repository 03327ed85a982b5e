"""Pins the threads of a timed process, each to a core of its own.

A process may have as many busy threads as there are cores, working together on small loops. The system may
then put two of them on one core: for some milliseconds when they wake up or, while another program holds a
core, for the whole measurement. Each of the two spins until the other has run, so a call takes many times as
long, in one process and not in its twin. When threads are pinned, another program slows one core only, and it
slows both sides alike.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.referee.sandbox.account import cpu_s

BUSY = 0.1
"""A thread is busy when it worked at least this share of the time that the busiest thread worked."""
ENDED = 0.1
"""Largest share of a process's work that ended threads may have done. A process above it starts threads in
every call. It is not pinned: all those threads would run on the core of the thread that starts them."""
TICK_S = 0.01
"""Longest time for which the system leaves the account of a running thread as it was."""


@dataclass(frozen=True)
class Spell:
    """Processor time of a process's threads during some commands."""

    worked: Mapping[int, float]
    """Thread -> seconds, for threads that existed before and after."""
    cpu_s: float
    """Seconds of all threads, ended ones included."""


def worked_s(pid: int) -> dict[int, float]:
    """Return thread -> seconds worked so far; empty when the process is gone."""
    worked = {}
    with contextlib.suppress(OSError, ValueError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{name}/schedstat", encoding="ascii") as file:
                worked[int(name)] = int(file.read().split()[0]) / 1e9
    return worked


def waited_share(pid: int) -> float:
    """Return the share of their time in which a process's threads could run and waited for a core.

    1 where it is not known: the process is gone, or the kernel keeps no account.
    """
    worked = waited = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{name}/schedstat", encoding="ascii") as file:
                fields = file.read().split()
            worked, waited = worked + int(fields[0]), waited + int(fields[1])
    return waited / (worked + waited) if worked else 1.0


def threads_to_pin(spell: Spell, n_cores: int) -> list[int]:
    """Return the busy threads that are to be pinned, the oldest first.

    Returns no threads where fewer are busy than there are cores, because the system then finds a core for
    each, and where ended threads did much of the work (see ``ENDED``).
    """
    most = max(spell.worked.values(), default=0.0)
    if n_cores < 2 or most <= 0.0 or spell.cpu_s - sum(spell.worked.values()) > ENDED * spell.cpu_s:
        return []
    busy = sorted(thread for thread, worked in spell.worked.items() if worked >= BUSY * most)
    return busy if len(busy) >= n_cores else []


def spell_of(pid: int, work: Callable[[], object]) -> Spell:
    """Have a process work and return what its threads did meanwhile."""
    before, cpu_before_s = worked_s(pid), cpu_s(pid)
    work()
    time.sleep(TICK_S)
    after = worked_s(pid)
    worked = {thread: now_s - before[thread] for thread, now_s in after.items() if thread in before}
    return Spell(worked, cpu_s(pid) - cpu_before_s)


class Pinning:
    """Pins threads, and remembers the cores that each was allowed to use before."""

    def __init__(self) -> None:
        self._masks: dict[int, set[int]] = {}
        self._whole = os.sched_getaffinity(0)
        self._has_pinned = False
        self._last: dict[int, set[int]] = {}

    def pin(self, threads: Sequence[int], most_cores: int | None = None) -> None:
        """Pin each thread to the next core, going round; a thread that is gone or foreign is left alone.

        ``most_cores``: how many cores they may share; None: all.
        """
        cores = sorted(os.sched_getaffinity(0))[:most_cores]
        for i, thread in enumerate(threads):
            with contextlib.suppress(OSError):
                mask = os.sched_getaffinity(thread)
                core = {cores[i % len(cores)]}
                os.sched_setaffinity(thread, core)
                self._last[thread] = core
                is_inherited = self._has_pinned and len(mask) == 1
                self._masks.setdefault(thread, self._whole if is_inherited else mask)
        self._has_pinned = self._has_pinned or bool(self._masks)

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Have no thread pinned for a while; the same ones are pinned again afterwards."""
        pinned = {thread: self._last[thread] for thread in self._masks}
        self.restore()
        yield
        for thread, core in pinned.items():
            with contextlib.suppress(OSError):
                mask = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, core)
                self._masks[thread] = mask

    def restore(self) -> None:
        """Allow every pinned thread the cores it had before, and threads that these started all cores."""
        for thread in [thread for pinned in self._masks for thread in worked_s(pinned)]:
            with contextlib.suppress(OSError):
                if thread not in self._masks and len(os.sched_getaffinity(thread)) == 1:
                    os.sched_setaffinity(thread, self._whole)
        for thread, mask in self._masks.items():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, mask)
        self._masks.clear()
