"""Idle work: what a candidate does while no command runs, measured from outside.

All figures are of one account (``sandbox/account.py``): the worker and everything that was ever started below
it, whether it still runs and whoever reaped it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kernelwright.referee.sandbox.account import CpuAccount, FamilyAccount, cpu_s

IDLE_LEAST_S = 0.01
"""A process may use this much processor time between commands in all, plus the three amounts below."""
IDLE_SLACK_S = 0.0005
"""After every command: its threads go to sleep and its answer is sent."""
IDLE_SPIN_S = 0.0003
"""After every command, for every thread but the first: a thread spins about this long before it sleeps."""
IDLE_SHARE = 0.1
"""This share of the processor time that the process used during commands."""
OTHERS_S = 0.05
"""Processor time that the processes started by a candidate may use, from the end of verification on."""
CERTAIN = 2.0
"""Beyond this many times what is allowed, one finding is enough: no other program can cause processor time in
processes of the candidate."""
CAUGHT = {4: "SIGILL", 5: "SIGTRAP", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV", 14: "SIGALRM", 18: "SIGCONT",
          26: "SIGVTALRM", 27: "SIGPROF", 29: "SIGIO"}  # fmt: skip
"""Signals whose handlers can run code outside a call."""


class OutsideWork(NamedTuple):
    """Work that is not allowed."""

    text: str
    """One line."""
    is_certain: bool
    """False: it might be gone in another process on a quieter machine."""


@dataclass
class Idle:
    """Processor time of a candidate since the last reset."""

    cpu_s: float = 0.0
    """Used between an answer and the next command, summed."""
    busy_s: float = 0.0
    """Used while commands ran."""
    n: int = 0
    """Number of gaps between commands."""
    n_threads: int = 1

    @property
    def is_too_much(self) -> bool:
        """True when only work outside the commands explains the time between them."""
        return self.cpu_s > self.allowed_s

    @property
    def allowed_s(self) -> float:
        """Seconds that may be used between commands in all."""
        return IDLE_LEAST_S + self.n * self.slack_s + IDLE_SHARE * self.busy_s

    @property
    def slack_s(self) -> float:
        """Seconds that the process may use after every command."""
        return IDLE_SLACK_S + (self.n_threads - 1) * IDLE_SPIN_S


class Watch:
    """Adds up the processor time of a candidate between its answers and the next commands."""

    def __init__(self, pid: int, account: CpuAccount | None = None, n_threads: int = 1) -> None:
        """``account`` holds ``pid`` and all that it starts; by default the sum over its family."""
        self._pid, self._account = pid, FamilyAccount(pid) if account is None else account
        self._n_threads = n_threads
        self._handlers = caught_signals(pid)
        self.command_s = 0.0
        """Processor time of the last command, of all threads and processes."""
        self.ahead_s = 0.0
        """Processor time between the last command and the answer before it, less the granted slack."""
        self.reset()

    def reset(self) -> None:
        """Begin to count anew; call this while no command runs."""
        self.idle = Idle(n_threads=self._n_threads)
        self._entered: float | None = None
        self._left: float | None = None
        self._depth = 0
        self._others_s = self._others_now_s()

    def enter(self) -> None:
        """Note that a command is about to be sent; within another command it is a part of that one."""
        self._depth += 1
        if self._depth > 1:
            return
        self._entered = self._cpu_s()
        if self._left is not None:
            gap_s = max(self._entered - self._left, 0.0)
            self.ahead_s = max(gap_s - self.idle.slack_s, 0.0)
            self.idle.cpu_s += gap_s
            self.idle.n += 1

    @property
    def entered_s(self) -> float:
        """Processor time when the last command began."""
        return self._entered or 0.0

    def leave(self) -> None:
        """Note that the answer has come."""
        self._depth = max(self._depth - 1, 0)
        if self._depth:
            return
        self._left = self._cpu_s()
        if self._entered is not None:
            self.command_s = max(self._left - self._entered, 0.0)
            self.idle.busy_s += self.command_s

    def problem(self) -> OutsideWork | None:
        """Return what work there was between commands or in other processes, None where it was allowed."""
        others_s = self._others_now_s() - self._others_s
        if others_s > OTHERS_S:
            return OutsideWork(
                f"processes that it started computed for {others_s * 1e3:.3g} ms", is_certain=True
            )
        if self.idle.is_too_much:
            text = (
                f"it used {self.idle.cpu_s * 1e3:.3g} ms of processor time while no command ran and "
                f"{self.idle.busy_s * 1e3:.3g} ms during {self.idle.n} commands: it works outside the calls"
            )
            return OutsideWork(text, is_certain=self.idle.cpu_s > CERTAIN * self.idle.allowed_s)
        return None

    def new_handlers(self) -> list[str]:
        """Return the names of the signals that the process has begun to handle since this watch began."""
        new = caught_signals(self._pid) & ~self._handlers
        return [name for number, name in CAUGHT.items() if new >> (number - 1) & 1]

    def _cpu_s(self) -> float:
        return self._account.seconds()

    def _others_now_s(self) -> float:
        return self._account.seconds() - cpu_s(self._pid)


def caught_signals(pid: int) -> int:
    """Return the mask of signals that a process handles itself; 0 when the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt")), 0)
