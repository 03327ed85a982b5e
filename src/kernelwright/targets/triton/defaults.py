"""A lowered program as the Triton printer's rules would carry it out."""

import dataclasses

from kernelwright.core.machine import Machine
from kernelwright.ir.program import Program, Region
from kernelwright.targets.triton.schedule import complete
from kernelwright.targets.triton.split import parts_for, split


def with_triton_schedules(program: Program, machine: Machine) -> Program:
    """Return the program with few long rows split and every schedule written out, so edits can see them."""
    del machine  # the rules are the same for every GPU; what depends on it is an edit
    for step in program.steps:
        parts = parts_for(step) if isinstance(step, Region) else None
        if isinstance(step, Region) and parts is not None:
            program = split(program, step, parts)
    steps = tuple(
        dataclasses.replace(step, schedule=complete(step)) if isinstance(step, Region) else step
        for step in program.steps
    )
    return dataclasses.replace(program, steps=steps)
