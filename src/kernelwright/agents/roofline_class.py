"""The roofline class of a task: what cuPilot's Breeder is told, and what steers its crossing."""

from typing import Literal

from kernelwright.agents.problem import Problem

MIDDLE_ZONE = 2.0
"""Intensities within this factor of the ridge ask for both; ours: the paper's zone lies between the ridges
of two kinds of GPU cores, and a CPU has one."""

RooflineClass = Literal["memory", "compute", "middle"]


def roofline_class(problem: Problem) -> RooflineClass:
    """Return which side of the machine's ridge the task lies on; ``middle`` when its floor is not known."""
    floor = problem.main_floor
    if floor is None:
        return "middle"
    ridge = problem.peaks.fma_gflops / problem.peaks.bandwidth_at(floor.work.min_bytes)
    if ridge / MIDDLE_ZONE < floor.work.intensity < ridge * MIDDLE_ZONE:
        return "middle"
    return floor.bound_by
