"""Limits that a child sets on itself before it runs anything it was given.

The one place for confinement: a stronger one (namespaces, Landlock, seccomp) goes here.
"""

import ctypes
import os
import resource
import signal
from dataclasses import dataclass

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Limits:
    """Ceilings of one child; None leaves the inherited one."""

    address_space_bytes: int | None = None
    cpu_s: int | None = None
    """Processor seconds over all threads."""
    file_bytes: int | None = None
    """Size of the largest file it may write."""


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent thread ends; exits if that has happened already."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def confine(limits: Limits, scratch: str) -> None:
    """Start a process group of its own, move to the scratch directory and apply the limits."""
    os.setsid()
    os.chdir(scratch)
    os.environ.update(HOME=scratch, TMPDIR=scratch, TORCH_EXTENSIONS_DIR=os.path.join(scratch, "extensions"))
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, limits.address_space_bytes)
    _limit(resource.RLIMIT_CPU, limits.cpu_s)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)


def _limit(kind: int, value: int | None) -> None:
    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (ceiling, ceiling))
