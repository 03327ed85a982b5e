"""Threads of a process that is timed are pinned, each to a core of its own.

Where as many threads as there are cores work on small loops together, the system may put two of them on one
core: for some milliseconds when they wake up and, where another program holds the other core, for as long as
they are timed. Each then waits, turning, until the other may run. That takes many times as long, in one
process and not in its twin. Pinned, its threads share one core with the other program, as both sides' do.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BUSY = 0.1
"""A thread is busy that worked at least this share of what the busiest did."""
ENDED = 0.1
"""Largest share of a process's work that ended threads may have done. A process above it starts threads in
every call. It is not pinned: all those threads would run on the core of the thread that starts them."""


@dataclass(frozen=True)
class Spell:
    """What the threads of a process did while it was asked for something."""

    worked: Mapping[int, float]
    """Seconds by thread, of those that were there before and after."""
    cpu_s: float
    """Of all its threads, of those that have ended too."""


def worked_s(pid: int) -> dict[int, float]:
    """Return thread -> seconds that it has worked so far; empty when the process is gone."""
    worked = {}
    with contextlib.suppress(OSError, ValueError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{name}/schedstat", encoding="ascii") as file:
                worked[int(name)] = int(file.read().split()[0]) / 1e9
    return worked


def threads_to_pin(spell: Spell, n_cores: int) -> list[int]:
    """Return the threads that belong on cores of their own, the oldest first.

    None where there are fewer than cores, for then the system can find room for them, nor where much of the
    process's time was not theirs.
    """
    most = max(spell.worked.values(), default=0.0)
    if n_cores < 2 or most <= 0.0 or spell.cpu_s - sum(spell.worked.values()) > ENDED * spell.cpu_s:
        return []
    busy = sorted(thread for thread, worked in spell.worked.items() if worked >= BUSY * most)
    return busy if len(busy) >= n_cores else []


class Pinning:
    """Threads that were pinned, and where they might run before."""

    def __init__(self) -> None:
        self._masks: dict[int, set[int]] = {}

    def pin(self, threads: Sequence[int]) -> None:
        """Pin each to the next core, going round; one that is gone or not ours to move stays as it is."""
        cores = sorted(os.sched_getaffinity(0))
        for i, thread in enumerate(threads):
            with contextlib.suppress(OSError):
                mask = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, {cores[i % len(cores)]})
                self._masks.setdefault(thread, mask)

    def restore(self) -> None:
        """Let all of them run where they might before."""
        for thread, mask in self._masks.items():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, mask)
        self._masks.clear()
