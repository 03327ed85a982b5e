"""Which ranked skills have a place to act on: the compiler knows that of every skill it can carry out."""

from collections.abc import Sequence

from kernelwright.agents.expert.extend import GENERATE, extend
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import RankedSkill
from kernelwright.ir.plan_lowering import sites
from kernelwright.targets.registry import target_of


def with_a_site(
    lowering: PlanLowering, problem: Problem, plan: Plan, ranked: Sequence[RankedSkill]
) -> tuple[RankedSkill, ...]:
    """Return the skills that can act somewhere on a plan's program, or on its generated code.

    A plan of library calls is one move away from generated code, on which most skills act. Skills of guidance
    alone stay: no code of ours can tell where they act. So do schedules in a language that we do not write.
    """
    known = lowering.lowerings(problem)
    generated = extend(plan, Move(skill=GENERATE))
    programs = [
        lowering.carried(problem, one) for one in ([plan] if plan == generated else [plan, generated])
    ]
    is_written = target_of(problem.target).writer is not None

    def acts(skill: str) -> bool:
        announced = lowering.skills[skill].lowering if skill in lowering.skills else None
        if announced is None or (skill not in known and not is_written):
            return True
        return skill in known and any(sites(program, known[skill]) for program in programs)

    return tuple(entry for entry in ranked if acts(entry.skill))
