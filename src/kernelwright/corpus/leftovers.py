"""What a judged program has left on the machine."""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kernelwright.referee.sandbox.processes import family_of

SHARED_PLACES = ("/dev/shm", "/var/tmp", tempfile.gettempdir())
SPECIMENS_NAME = "filler"
"""Files of others come and go in those places too; those that specimens try to leave behind begin so."""
PATIENCE_S = 2.0
"""Processes that were killed need a moment to be gone."""


@dataclass(frozen=True)
class Traces:
    """What there is at one moment."""

    processes: frozenset[int]
    """This process and all that descend from it."""
    files: frozenset[str]


def take_traces(*names: str) -> Traces:
    """Look at our processes, and for files in the places that programs share.

    ``names`` are beginnings of further names to look for: those of a referee's scratch.
    """
    beginnings = (SPECIMENS_NAME, *names)
    found = {
        str(Path(place, name))
        for place in SHARED_PLACES
        if os.path.isdir(place)
        for name in os.listdir(place)
        if name.startswith(beginnings)
    }
    return Traces(frozenset(family_of(os.getpid())), frozenset(found))


def left_behind(before: Traces, *names: str, patience_s: float = PATIENCE_S) -> tuple[str, ...]:
    """Name the processes and files that are there now and were not before; empty when all is clean.

    ``names`` are those that ``before`` was taken with.
    """
    deadline = time.monotonic() + patience_s
    while (left := _new(before, take_traces(*names))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _new(before: Traces, after: Traces) -> tuple[str, ...]:
    processes = sorted(after.processes - before.processes)
    files = sorted(after.files - before.files)
    return (*(f"process {pid}" for pid in processes), *(f"file {name}" for name in files))
