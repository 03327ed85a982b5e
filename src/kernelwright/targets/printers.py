"""The languages that a lowered program can be printed in: default schedules, schedule edits, the file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kernelwright.core.errors import LoweringError
from kernelwright.core.task import Task
from kernelwright.ir.edits import Gpu, ScheduleEdit
from kernelwright.ir.program import Program
from kernelwright.targets.cpp.schedules import SCHEDULE_EDITS, with_default_schedules
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.module_file.candidate import Programs
from kernelwright.targets.triton.candidate import render_triton_candidate
from kernelwright.targets.triton.defaults import with_triton_schedules
from kernelwright.targets.triton.edits import triton_edits


class Render(Protocol):
    """Writes a candidate file."""

    def __call__(self, task: Task, programs: Programs, note: str) -> str:
        """Return its source; raises LoweringError where something is not printable."""
        ...


@dataclass(frozen=True)
class Printer:
    """One language."""

    with_schedules: Callable[[Program], Program]
    """Decides every open field of every region's schedule."""
    edits_for: Callable[[Gpu], Mapping[str, ScheduleEdit]]
    """What ``schedule:NAME`` means in this language; the names are the same for every device."""
    render: Render
    no_rewrites: frozenset[str] = frozenset()
    """Rewrites that have no place in it."""


CPU_REWRITES = frozenset(
    {"onednn_matmul", "convolution_as_matmul", "untransposed_convolution", "channels_last"}
)
"""Other ways to call a library that pay with the libraries of a CPU; algebra is for every device."""
PRINTERS = {
    "cpp": Printer(with_default_schedules, lambda gpu: SCHEDULE_EDITS, render_cpp_candidate),
    "triton": Printer(with_triton_schedules, triton_edits, render_triton_candidate, CPU_REWRITES),
}
"""Language of a target -> how it is printed."""


def reading_language(language: str) -> str:
    """Return the language in which a program is lowered to be read: Triton for one that we do not write."""
    return language if language in PRINTERS else "triton"


def printer_for(language: str) -> Printer:
    """Return a language's printer; raises LoweringError for one that we do not write."""
    if language not in PRINTERS:
        raise LoweringError(f"no printer for {language!r}; known: {', '.join(PRINTERS)}")
    return PRINTERS[language]
