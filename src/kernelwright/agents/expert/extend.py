"""How a move changes a plan: it is added, or it takes the library seed back."""

from kernelwright.agents.expert.plan_lowering import LIBRARY_MOVE, PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.core.plan import Move, Plan
from kernelwright.ir.facts import materialised_bytes
from kernelwright.ir.program import Call, Program, Region

GENERATE = "generate-kernels"
"""The move from library calls to generated code. Generated code is what a plan means where nothing else is
said, so this move adds nothing: its child's plan is its base's without the library seed."""


def extend(plan: Plan, move: Move) -> Plan:
    """Return the plan after one more move."""
    if move.skill == GENERATE:
        return Plan(moves=tuple(kept for kept in plan.moves if kept.skill != LIBRARY_MOVE.skill))
    return plan.then(move)


def way_out(workshop: PlanLowering, problem: Problem, plan: Plan) -> Move | None:
    """Return the move that leaves the library seed; None when the plan is not on it or nothing fuses."""
    if all(move.skill != LIBRARY_MOVE.skill for move in plan.moves):
        return None
    now = workshop.carried(problem, plan).program
    then = workshop.carried(problem, extend(plan, Move(skill=GENERATE))).program
    n_regions = sum(isinstance(step, Region) for step in then.steps)
    if n_regions == 0:
        return None
    why = (
        f"{_calls(now)} calls of torch pass {materialised_bytes(now) / 1e6:.3g} MB of intermediates through "
        f"memory; generated: {n_regions} fused kernels, {_calls(then)} calls, "
        f"{materialised_bytes(then) / 1e6:.3g} MB"
    )
    return Move(skill=GENERATE, why=why)


def _calls(program: Program) -> int:
    return sum(isinstance(step, Call) and not step.is_view for step in program.steps)
