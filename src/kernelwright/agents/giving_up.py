"""Where the compiler generates nothing: asked before the first move, so that no run can hide it."""

from kernelwright.agents.problem import Problem
from kernelwright.core.plan import Plan
from kernelwright.ir.plan_lowering import lower_plan
from kernelwright.targets.registry import target_of


def lowering_failures(problem: Problem) -> dict[str, str]:
    """Return workload -> why lowering gave up on the module as it was captured; empty where it did not."""
    lowering = target_of(problem.target).lowering
    programs = {
        name: lower_plan(found, Plan(), {}, lowering, problem.machine).program
        for name, found in problem.captured.items()
    }
    return {name: program.given_up for name, program in programs.items() if program.given_up}
