"""Who carries a run on: a lease in the store, so that two processes never write one run."""

import os
import socket
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from kernelwright.core.errors import StoreError
from kernelwright.core.frozen import Frozen

LEASE_S = 60.0
"""Seconds after which a lease that is not renewed runs out, and another process may take the run over."""


class RunHeld(StoreError):
    """Another process carries the run on; nothing was written."""


class LeaseLost(StoreError):
    """The run was taken over by another process; what was to be written was not."""


class Owner(Frozen):
    """One process."""

    host: str
    place: str
    """Where its number means something: this boot of the machine and the container."""
    pid: int
    started: str
    """The kernel's time of its start: a later process with the same number has another."""

    @classmethod
    def here(cls) -> "Owner":
        """Return this process."""
        pid = os.getpid()
        return cls(host=socket.gethostname(), place=_place(), pid=pid, started=_start_of(pid) or "")

    @property
    def is_dead(self) -> bool:
        """True when it certainly runs no more; processes elsewhere cannot be asked."""
        return self.place == _place() and _start_of(self.pid) != self.started


class Lease(Frozen):
    """The right to write a run until it runs out."""

    run_id: str
    token: int
    """Grows with every owner of the run."""
    owner: Owner
    taken_at: datetime
    """UTC."""
    expires_at: datetime
    """UTC; later with every renewal."""

    def is_live(self, now: datetime) -> bool:
        """Tell whether its owner may still be at work."""
        return now < self.expires_at and not self.owner.is_dead

    def refusal(self) -> RunHeld:
        """Return what a second process is told."""
        here = "on this machine" if self.owner.place == _place() else f"on {self.owner.host}"
        return RunHeld(
            f"run {self.run_id} is being carried on by process {self.owner.pid} {here} since "
            f"{self.taken_at:%Y-%m-%d %H:%M:%S} UTC: wait for its end (kernelwright runs show "
            f"{self.run_id} follows it), or end that process first; one that is gone gives the run up "
            f"within {LEASE_S:.0f} s"
        )


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


@cache
def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"host {socket.gethostname()}"


def _start_of(pid: int) -> str | None:
    """Return when a process here started, None when there is none; a zombie has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
