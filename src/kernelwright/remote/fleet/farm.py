"""Build nodes of a cluster: they compile, so that the machines that time need not.

A build node is one that offers the resource ``BUILDS``. Nothing is timed there.
"""

from dataclasses import dataclass, field

from kernelwright.core.frozen import Frozen
from kernelwright.remote.fleet.records import WorkerVersion

BUILDS = "kernelwright_build"
"""Name of the resource; a node compiles as many programs at once as it offers of it."""


class BuildOrder(Frozen):
    """A program to compile, and for whom; travels as JSON."""

    bring: str
    """``MODULE:FUNCTION`` on the build node that takes this order and returns ``BuiltFiles``."""
    program: str
    toolchain: str
    """See ``machine.built_elsewhere.toolchain``; of the machine that will load the library."""
    version: WorkerVersion
    limit_s: float
    is_reported: bool = True
    """The compiler says which loops it vectorised."""
    require_sandbox: str | None = None


@dataclass(frozen=True)
class BuiltFiles:
    """What came of an order."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Of a build cache, by name; none: there is nothing to compile, or the program does not compile, which
    the machine that times finds out by itself."""
    problem: str = ""
    """Why this node cannot build for that machine, in one line."""
