"""What is found of a candidate before a device is used, and how what looks for it is started."""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from pydantic import Field

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.machine.compiler import RunCompiler

Start: TypeAlias = Callable[[Sequence[str], str, int, int], "subprocess.Popen[bytes]"]
"""Starts a command in a folder, with the descriptor it answers on and the one it logs to."""
TIMEOUT_S = 180.0
"""As long as a candidate may take to load on a device, compilers included."""


class AotCheck(Frozen):
    """What is known of a candidate before a device is used."""

    facts: dict[str, FactValue] = Field(default_factory=dict)
    """``aot.*`` and ``gpu.*``, for the diagnosis: those of the kernel that moves most."""
    by_kernel: dict[str, dict[str, FactValue]] = Field(default_factory=dict)
    """The same of each kernel's function, for when a profiler says which is the hottest."""
    problem: str = ""
    """Why it cannot be built or launched; empty where nothing speaks against it."""
    is_late: bool = False
    """The problem is that a compiler did not end in time."""
    note: str
    """One line for a reader: what was built for which GPU, or why nothing was looked at."""
    log: str = ""
    sandbox: str | None = None


class Compiling(Protocol):
    """A way to run compilers, and the name of its sandbox."""

    @property
    def run(self) -> RunCompiler: ...

    @property
    def sandbox(self) -> str: ...


@dataclass(frozen=True)
class Ways:
    """How what looks at candidates is started and where it keeps builds."""

    cache_dir: Path
    start: Start | None = None
    """See ``inspect_candidate``."""
    compiling: Callable[[], AbstractContextManager[Compiling]] | None = None
    """Opened for candidates that compilers take ahead of time; None: those are not looked at."""
    timeout_s: float = TIMEOUT_S
