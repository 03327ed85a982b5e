"""Where the compiler generates nothing: asked before the first move, so that no run can hide it."""

from kernelwright.agents.problem import Problem
from kernelwright.core.plan import Plan
from kernelwright.targets.plan_lowering import carry_out
from kernelwright.targets.printers import reading_language


def lowering_failures(problem: Problem) -> dict[str, str]:
    """Return workload -> why lowering gave up on the module as it was captured; empty where it did not."""
    language = reading_language(problem.target.language)
    programs = {
        name: carry_out(found, Plan(), {}, language).program for name, found in problem.captured.items()
    }
    return {name: program.given_up for name, program in programs.items() if program.given_up}
