"""What a candidate's process does while nothing is asked of it, seen from outside."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from kernelwright.referee.sandbox.processes import family_of, stat_of

IDLE_LEAST_S = 0.01
"""Processor time that a process may take while nothing is asked of it: this much in all ..."""
IDLE_SLACK_S = 0.0005
"""... this much after every command: threads go to sleep, answers are sent ..."""
IDLE_SPIN_S = 0.0003
"""... this much more for every thread but one, which waits for work so long before it sleeps ..."""
IDLE_SHARE = 0.1
"""... and this share of what it took in the commands."""
OTHERS_S = 0.05
"""Processor time that processes which it started may take, from the end of verification on."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
OWN, WAITED_FOR = 11, 13
"""Places in what ``stat_of`` returns: ticks in user mode; those in system mode follow."""
CAUGHT = {4: "SIGILL", 5: "SIGTRAP", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV", 14: "SIGALRM",
          26: "SIGVTALRM", 27: "SIGPROF", 29: "SIGIO"}  # fmt: skip
"""Signals by which code can run at moments that are not a call."""


@dataclass
class Idle:
    """What was seen since the last reset."""

    cpu_s: float = 0.0
    """Processor time between an answer and the next command."""
    busy_s: float = 0.0
    """Processor time in between, while a command was carried out."""
    n: int = 0
    """Commands."""
    n_threads: int = 1

    @property
    def is_too_much(self) -> bool:
        """True when nothing but work of its own explains it."""
        return self.cpu_s > IDLE_LEAST_S + self.n * self.slack_s + IDLE_SHARE * self.busy_s

    @property
    def slack_s(self) -> float:
        """What is granted after every command."""
        return IDLE_SLACK_S + (self.n_threads - 1) * IDLE_SPIN_S


class Watch:
    """Adds up the processor time of a process between its answers and the next commands."""

    def __init__(self, pid: int, keeper: int | None = None, n_threads: int = 1) -> None:
        """``keeper`` is the process under which all that it starts is found; by default itself."""
        self._pid, self._keeper = pid, pid if keeper is None else keeper
        self._n_threads = n_threads
        self._handlers = caught_signals(pid)
        self.command_s = 0.0
        """Processor time of the last command, of all threads."""
        self.ahead_s = 0.0
        """The same between the answer before it and itself, less what threads need to go to sleep."""
        self.reset()

    def reset(self) -> None:
        """Forget what was seen; the process is expected to be at rest."""
        self.idle = Idle(n_threads=self._n_threads)
        self._entered: float | None = None
        self._left: float | None = None
        self._others_s = others_cpu_s(self._pid, self._keeper)

    def enter(self) -> None:
        """A command is about to be sent."""
        self._entered = self._cpu_s()
        if self._left is not None:
            gap_s = max(self._entered - self._left, 0.0)
            self.ahead_s = max(gap_s - self.idle.slack_s, 0.0)
            self.idle.cpu_s += gap_s
            self.idle.n += 1

    def leave(self) -> None:
        """The answer has come."""
        self._left = self._cpu_s()
        if self._entered is not None:
            self.command_s = max(self._left - self._entered, 0.0)
            self.idle.busy_s += self.command_s

    def problem(self) -> str | None:
        """Say what it did while nothing was asked of it; None when that is no more than it may."""
        if self.idle.is_too_much:
            return (
                f"it took {self.idle.cpu_s * 1e3:.3g} ms of processor time while nothing was asked of it, "
                f"and {self.idle.busy_s * 1e3:.3g} ms in {self.idle.n} commands: work outside the calls"
            )
        others_s = others_cpu_s(self._pid, self._keeper) - self._others_s
        if others_s > OTHERS_S:
            return f"processes that it started computed for {others_s * 1e3:.3g} ms"
        return None

    def new_handlers(self) -> list[str]:
        """Name the signals that it has taken over since it was started."""
        new = caught_signals(self._pid) & ~self._handlers
        return [name for number, name in CAUGHT.items() if new >> (number - 1) & 1]

    def _cpu_s(self) -> float:
        return cpu_s(self._pid)


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, of threads that have ended too; 0 when it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the kernel's name for that clock
    except OSError:
        return 0.0


def caught_signals(pid: int) -> int:
    """Return the mask of signals that a process handles itself; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt")), 0)


def others_cpu_s(pid: int, keeper: int) -> float:
    """Return the processor time of everything below the keeper but the process itself.

    Of children that have ended those that it waited for are counted.
    """
    ticks = 0
    for other in family_of(keeper):
        stat = stat_of(other)
        if stat:
            first = WAITED_FOR if other == pid else OWN
            ticks += sum(int(stat[place]) for place in (first, first + 1))
    return ticks * TICK_S
