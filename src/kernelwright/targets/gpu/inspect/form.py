"""A form in which candidates hold kernels that a compiler takes ahead of time, without running anything."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.machine.compiler import RunCompiler
from kernelwright.targets.cuda.nvcc.outcome import AheadReport


class Report(Protocol):
    """Compiles the kernels of a candidate for an architecture."""

    def __call__(
        self,
        candidate: str,
        architecture: str,
        cache_dir: Path,
        *,
        timeout_s: float,
        run: RunCompiler | None = None,
    ) -> AheadReport | None:
        """Return what came of it, None where the candidate holds no such kernels."""
        ...


@dataclass(frozen=True)
class BareSource:
    """A file of the language alone, made a candidate."""

    module: str
    """Python that defines ``ModelNew``; its kernels can be inspected in any case."""
    call: str
    """What ``forward`` calls, in words."""
    problem: str = ""
    """Why a task's inputs are not enough to call it; empty: they are."""


@dataclass(frozen=True)
class AotForm:
    """One of them; a target lists its own in ``aot_forms``."""

    name: str
    """As in records, e.g. ``cuda``."""
    title: str
    """Of the language, in sentences."""
    vendor: str
    """Whose GPUs it is compiled for, as ``Driver.vendor`` has it."""
    vendor_title: str
    example: str
    """An architecture to inspect for where none is named."""
    is_in: Callable[[str], bool]
    """Tells whether a source that parses holds such kernels."""
    report: Report
    find_missing: Callable[[], str | None]
    """Says what to install where the compiler is missing; None: it is there."""
    architecture: Callable[[str], str | None] = lambda architecture: None
    """What to build for in place of a device's architecture before a run; None: for that itself."""
    is_whole: bool = True
    """What the compiler sees is all that a device would need: what it refuses cannot run."""
    wrap: Callable[[str], BareSource] | None = None
    """Makes a candidate of a file of the language alone; None: its launches cannot be known from that."""
    suffixes: tuple[str, ...] = ()
    """Of files of the language alone."""
