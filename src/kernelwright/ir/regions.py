"""Finding and replacing regions of a program."""

import dataclasses

from kernelwright.core.errors import LoweringError
from kernelwright.ir.program import Program, Region


def find_region(program: Program, name: str) -> Region:
    """Return the region of that name; raises LoweringError when there is none."""
    for step in program.steps:
        if isinstance(step, Region) and step.name == name:
            return step
    known = ", ".join(s.name for s in program.steps if isinstance(s, Region)) or "none"
    raise LoweringError(f"no region {name!r} in the program; regions: {known}")


def replace_region(program: Program, region: Region) -> Program:
    """Return the program with the region of the same name replaced."""
    steps = tuple(region if isinstance(s, Region) and s.name == region.name else s for s in program.steps)
    return dataclasses.replace(program, steps=steps)
