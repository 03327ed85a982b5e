"""What a task looks like before any move: the facts by which tasks are alike."""

from kernelwright.agents.problem import Problem
from kernelwright.core.evidence import FactValue
from kernelwright.core.plan import Plan
from kernelwright.ir.facts import program_facts
from kernelwright.ir.plan_lowering import lower_plan
from kernelwright.memory.archive import signature_of
from kernelwright.targets.registry import target_of


def task_signature(problem: Problem) -> dict[str, FactValue]:
    """Return the signature of the main workload; empty when the module was not captured."""
    captured = problem.captured.get(problem.main_workload)
    if captured is None:
        return {}
    lowered = lower_plan(captured, Plan(), {}, target_of(problem.target).lowering, problem.machine)
    facts: dict[str, FactValue] = program_facts(captured, lowered.program)
    floor = problem.main_floor
    if floor is not None:
        facts["task.flops"] = floor.work.flops
        facts["task.min_bytes"] = floor.work.min_bytes
        facts["task.bound_by"] = floor.bound_by
        facts["task.working_set_fits_cache"] = floor.work.min_bytes <= problem.peaks.cache_bytes
    return signature_of(facts)
