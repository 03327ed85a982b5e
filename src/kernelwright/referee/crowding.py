"""Threads of one process that share a core because another program has the rest: seen, and kept apart.

Where as many threads as there are cores work on small loops together and something else holds a core, the
system may put two of them on one and leave them there: each waits, turning, until the other may run. That
takes many times as long, in one process for as long as it is timed and not in its twin. On cores of their own
its threads share one of them with the other program, as both sides do.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CROWDED = 0.3
"""Time that its threads waited for a core, together, as a share of the time that passed."""
BUSY = 0.1
"""A thread is busy that worked at least this share of what the busiest did."""
ENDED = 0.1
"""Share of a process's work that threads may have done which are no more. More: it starts threads for every
call, and those would all be where the one is that starts them."""


@dataclass(frozen=True)
class Account:
    """What the threads of a process have done so far, seconds by thread; empty where nobody says."""

    worked: Mapping[int, float]
    waited: Mapping[int, float]
    """Ready to run, without a core."""


def account_of(pid: int) -> Account:
    """Return the account of a process; empty when it is gone."""
    worked, waited = {}, {}
    with contextlib.suppress(OSError, ValueError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{name}/schedstat", encoding="ascii") as file:
                ran_ns, waited_ns, _ = map(int, file.read().split())
            worked[int(name)], waited[int(name)] = ran_ns / 1e9, waited_ns / 1e9
    return Account(worked, waited)


def is_crowded(before: Account, after: Account, seconds: float) -> bool:
    """Tell whether threads had to wait for a core for much of the time between two accounts."""
    waited = sum(now - before.waited.get(thread, 0.0) for thread, now in after.waited.items())
    return waited > CROWDED * seconds


def threads_to_part(before: Account, after: Account, cpu_s: float, n_cores: int) -> list[int]:
    """Return the threads that belong on cores of their own, the busiest first.

    None where there are fewer than cores, for then the system can find room for them, nor where much of the
    process's ``cpu_s`` was not theirs.
    """
    worked = {
        thread: now - before.worked[thread] for thread, now in after.worked.items() if thread in before.worked
    }
    most = max(worked.values(), default=0.0)
    if n_cores < 2 or most <= 0.0 or cpu_s - sum(worked.values()) > ENDED * cpu_s:
        return []
    busy = [
        thread for thread in sorted(worked, key=lambda t: (-worked[t], t)) if worked[thread] >= BUSY * most
    ]
    return busy if len(busy) >= n_cores else []


class Parting:
    """Threads that were put on cores of their own, and where they might run before."""

    def __init__(self) -> None:
        self._masks: dict[int, set[int]] = {}

    def part(self, threads: Sequence[int]) -> None:
        """Put each on the next core, going round; one that is gone or not ours to move stays as it is."""
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
