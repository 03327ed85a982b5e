"""Lower a graph that was captured at several extents to one program for all of them."""

from dataclasses import replace

from kernelwright.core.dynamic import DynamicAxis
from kernelwright.core.errors import LoweringError
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.extents import Dim, Extent, Family, dims_in, most
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Program, Region
from kernelwright.tasks.capture import Captured

MOST_POINTS = 2**31
"""Loop variables of generated code are 32 bits wide."""


def lower_family(captured: Captured, options: FusionOptions) -> Program:
    """Return the program; where a graph has a family, its sizes are extents (``ir/extents.py``).

    Where generated code cannot serve all extents, every operator stays a call of torch, and
    ``Program.given_up`` says why.

    Raises:
        LoweringError: not even calls of torch are the same at all extents.
    """
    if not captured.family:
        return lower(captured, options)
    try:
        return _general(captured, options)
    except LoweringError as error:
        if not options.enabled:
            raise
        calls = _general(captured, replace(options, enabled=False))
        return replace(calls, given_up=f"one kernel cannot serve all extents: {error}")


def dims_of(axes: tuple[DynamicAxis, ...]) -> tuple[Dim, ...]:
    """Return the dims of a task's dynamic axes."""
    return tuple(Dim(axis.name, *axis.span, axis.timed[0], axis.timed[0]) for axis in axes)


def _general(captured: Captured, options: FusionOptions) -> Program:
    family = Family(dims_of(captured.axes), [point for point, _ in captured.family])
    programs = [lower(member, options) for _, member in captured.family]
    if given_up := next((p.given_up for p in programs if p.given_up), None):
        raise LoweringError(given_up)
    program = family.unified(programs)
    for step in program.steps:
        if isinstance(step, Region):
            _require_small(step)
    if not set(dims_in(program)) <= set(family.dims):
        raise LoweringError("a defect of ours: the program depends on extents that nobody named")
    return program


def _require_small(region: Region) -> None:
    for axis in (*region.kept, *region.inner):
        if isinstance(axis.size, Extent) and most(axis.size) >= MOST_POINTS:
            raise LoweringError(f"{region.name}: at the end of the range a loop has {most(axis.size)} points")
