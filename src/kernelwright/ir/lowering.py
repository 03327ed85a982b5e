"""What a language says of lowered programs: how they are scheduled, changed, mended and printed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from kernelwright.core.machine import Machine
from kernelwright.core.plan import ParamValue
from kernelwright.core.task import Task, TolerancePolicy
from kernelwright.ir.edits import ScheduleEdit
from kernelwright.ir.program import Program
from kernelwright.tasks.capture import Captured

Programs = Mapping[str, tuple[Captured, Program]]
"""Workload name -> what was captured and what replaces it."""


class Write(Protocol):
    """Prints a candidate file."""

    def __call__(self, task: Task, programs: Programs, note: str) -> str:
        """Return its source.

        Args:
            task: Its reference provides the constructor; its mode and workloads are not looked at.
            programs: One per workload, with schedules of the same target.
            note: The plan in words, for the docstring.

        Raises:
            LoweringError: something is not printable.
        """
        ...


@dataclass(frozen=True)
class Repair:
    """Safer arithmetic for a region whose numbers are off."""

    name: str
    """Under which it enters a plan."""
    lowering: str
    """``schedule:NAME``."""
    params: Mapping[str, ParamValue]
    why: str


@dataclass(frozen=True)
class Lowering:
    """How a target carries out programs. A target may leave out all but the first field."""

    with_schedules: Callable[[Program, Machine], Program]
    """Decides every open field of every region's schedule."""
    edits_for: Callable[[Machine], Mapping[str, ScheduleEdit]] = lambda machine: {}
    """What ``schedule:NAME`` means; the names are the same for every machine."""
    no_rewrites: frozenset[str] = frozenset()
    """Rewrites of the graph that have no place here."""
    own_products: bool = False
    """Its printer has kernels for matrix products and convolutions, in the place of library calls."""
    own_recurrences: bool = False
    """Its printer has kernels for recurrent layers."""
    own_windows: bool = False
    """Its printer has kernels for convolutions of few channels and with 3 x 3 windows, which are ahead of the
    library's."""
    loosens: frozenset[str] = frozenset()
    """Lowerings, ``schedule:NAME``, that round more than float32 does: only where the tolerance allows it."""
    estimate_ns: Callable[[Program, Machine], float] | None = None
    """How long a program takes by an analytic model; None: the target has none. Orders programs of a task."""
    repairs: tuple[Repair, ...] = ()
    """Tried in this order."""
    takes_extents: bool = False
    """Kernels may have sizes that are known when they run (``ir/extents.py``)."""

    def within(self, tolerance: TolerancePolicy) -> "Lowering":
        """Return the same without edits that round more than the tolerance allows."""

        def edits_for(machine: Machine) -> Mapping[str, ScheduleEdit]:
            edits = self.edits_for(machine)
            return {name: edit for name, edit in edits.items() if f"schedule:{name}" not in self.loosens}

        return self if tolerance.may_round or not self.loosens else replace(self, edits_for=edits_for)
