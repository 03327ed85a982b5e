"""What a build of GPU code comes to: a file and the compiler's words, or why there is none."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen


class BuildStatus(StrEnum):
    """How a build ended."""

    BUILT = "built"
    REFUSED = "refused"
    """The compiler does not take the source."""
    TIMED_OUT = "timed_out"
    NOT_ALLOWED = "not_allowed"
    """The source would read files; no compiler has seen it."""
    NOT_THE_FORM = "not_the_form"
    """The candidate's launches or flags cannot be used, or name kernels that are not there."""
    NEEDS_HEADERS = "needs_headers"
    """The kernels use a library whose headers are not here; says nothing of the candidate."""
    NO_COMPILER = "no_compiler"
    """Says nothing of the candidate."""


@dataclass(frozen=True)
class Product:
    """A file that is ready; never overwritten in place."""

    path: Path
    log: str
    compiler: str
    seconds: float
    cached: bool


@dataclass(frozen=True)
class NotBuilt:
    """Why there is nothing."""

    status: BuildStatus
    message: str
    """One line."""
    log: str = ""
    """The compiler's words; positions refer to ``kernel.cu``."""


class LaunchFacts(Frozen):
    """One launch and the kernel behind it."""

    launch: str
    """Its name; of a ``load_inline`` candidate the kernel's."""
    kernel: str
    """As linked."""
    grid: tuple[int, int, int] | None = None
    """None where it is computed at run time."""
    facts: dict[str, FactValue]
    """Under the names of the evidence, ``aot.*``; without a disassembler the instruction mix is missing."""


class AheadReport(Frozen):
    """What is known of a candidate's kernels for one architecture. Launches only when it was built."""

    status: BuildStatus
    message: str = ""
    log: str = ""
    architecture: str
    compiler: str | None = None
    launches: tuple[LaunchFacts, ...] = ()
    notes: tuple[str, ...] = ()
    """What was assumed, and what is not known."""
