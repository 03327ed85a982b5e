"""Schedules by the printer's rules, written out so that edits and reports can see them."""

import dataclasses

from kernelwright.core.machine import Machine
from kernelwright.ir.program import Program, Region, Schedule
from kernelwright.targets.cpp.choices import complete
from kernelwright.targets.cpp.schedules.in_place import with_results_in_place


def default_schedule(region: Region, program: Program, machine: Machine) -> Schedule:
    """Return the region's schedule with every open field decided.

    The rules depend on sizes, strides, operation costs and the machine; ``cpp/choices.py`` documents each.
    """
    del program  # a region's best schedule does not depend on its neighbours yet
    return complete(region, machine)


def with_default_schedules(program: Program, machine: Machine) -> Program:
    """Return the program with the schedule of every region decided, epilogues in place where they can be."""
    steps = tuple(
        dataclasses.replace(step, schedule=default_schedule(step, program, machine))
        if isinstance(step, Region)
        else step
        for step in program.steps
    )
    return with_results_in_place(dataclasses.replace(program, steps=steps))
