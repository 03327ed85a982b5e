"""The languages that a lowered program can be printed in: default schedules, schedule edits, the file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import ANY_GPU, Machine
from kernelwright.core.task import Task
from kernelwright.ir.edits import ScheduleEdit
from kernelwright.ir.program import Program
from kernelwright.targets.cpp.schedules import schedule_edits, with_default_schedules
from kernelwright.targets.module_file.candidate import Programs, render_candidate
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

    with_schedules: Callable[[Program, Machine], Program]
    """Decides every open field of every region's schedule."""
    edits_for: Callable[[Machine], Mapping[str, ScheduleEdit]]
    """What ``schedule:NAME`` means in this language; the names are the same for every machine."""
    render: Render
    no_rewrites: frozenset[str] = frozenset()
    """Rewrites that have no place in it."""


def _triton_edits(machine: Machine) -> Mapping[str, ScheduleEdit]:
    return triton_edits(machine.accelerator or ANY_GPU)


CPU_REWRITES = frozenset(
    {"onednn_matmul", "convolution_as_matmul", "untransposed_convolution", "channels_last"}
)
"""Other ways to call a library that pay with the libraries of a CPU; algebra is for every device."""
PRINTERS = {
    "cpp": Printer(with_default_schedules, schedule_edits, render_candidate),
    "triton": Printer(with_triton_schedules, _triton_edits, render_triton_candidate, CPU_REWRITES),
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
