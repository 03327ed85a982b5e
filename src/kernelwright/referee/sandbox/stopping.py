"""Stops everything of a candidate's, so that nothing of it runs while its memory is read."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from kernelwright.referee.sandbox.processes import STATE, stat_of

LONGEST_S = 0.2
"""Wait this long for the processes to stop. One that waits for a disk stops a moment later."""
PAUSE_S = 0.0001
STOPPED = ("T", "t", "Z", "X")


@contextlib.contextmanager
def stopped(first: int, processes: Callable[[], Sequence[int]]) -> Iterator[None]:
    """Stop a process and all that ``processes`` finds, threads included; let them go on afterwards.

    Looks again until nothing new has come: a process may fork until its own signal arrives. What runs again
    is stopped again: the end of a child may send SIGCONT to its parent. (Timers cannot: see ``seccomp.py``.)
    """
    held: dict[int, None] = {}
    try:
        _stop(first, held)
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            found = processes()
            for pid in found:
                if pid not in held:
                    _stop(pid, held)
            running = [pid for pid in held if not _is_stopped(pid)]
            if not running and held.keys() >= set(found):
                break
            time.sleep(PAUSE_S)
            for pid in running:
                _stop(pid, held)
        yield
    finally:
        for pid in held:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)


def _stop(pid: int, held: dict[int, None]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
        held[pid] = None


def _is_stopped(pid: int) -> bool:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    stats = (stat_of(int(thread)) if thread == str(pid) else _thread_stat(pid, thread) for thread in threads)
    return all(not stat or stat[STATE] in STOPPED for stat in stats)


def _thread_stat(pid: int, thread: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
