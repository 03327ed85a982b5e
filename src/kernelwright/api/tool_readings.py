"""Tools that only read and lower: skills, the expert's moves, and its kernels. Nothing is built or run."""

from functools import cache

from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.llm.sources import fold
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Situation
from kernelwright.api.planning import PossibleMove, plan_written, possible_moves
from kernelwright.api.tool_arguments import ExpertPlan, ReadSkill
from kernelwright.core.errors import UserError
from kernelwright.core.plan import Move, Plan
from kernelwright.skills.load import load_skills
from kernelwright.skills.predicate import show_predicate

N_MOVES = 20
"""Moves that are listed at most; ours."""


@cache
def _expert() -> PlanLowering:
    """Return the expert's compiler, which remembers what it has lowered."""
    return PlanLowering(load_skills())


def skill_text(situation: Situation, asked: ReadSkill) -> str:
    """Show a skill for the target in full."""
    target = str(situation.problem.target)
    known = {name: skill for name, skill in _expert().skills.items() if target in skill.targets}
    skill = known.get(asked.name)
    if skill is None:
        raise UserError(f"there is no skill {asked.name!r} for {target}; there are: {', '.join(known)}")
    rules = [f"Requires {show_predicate(one)}" for one in skill.requires]
    rules += [f"Never where {show_predicate(one)}" for one in skill.forbids]
    return "\n".join([f"{skill.name}: {skill.summary}", *rules, "", skill.body])


def moves_listed(situation: Situation, asked: ExpertPlan) -> str:
    """List the expert's moves on top of a plan, the largest guessed gain first."""
    problem = _captured(situation)
    found = possible_moves(_expert(), problem, _plan(problem, asked))
    lines = [_move_line(move) for move in found[:N_MOVES]]
    rest = [f"and {len(found) - N_MOVES} more"] if len(found) > N_MOVES else []
    return "\n".join([*lines, *rest]) or "The expert knows no further move on this plan."


def _move_line(move: PossibleMove) -> str:
    params = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in move.params.items())
    place = f"{move.skill} @ {move.region} ({params or 'no parameters'})"
    return f"{place}: {move.why}; guessed gain {move.gain:.3g}x"


def kernel_written(situation: Situation, asked: ExpertPlan) -> str:
    """Print the expert's kernel for a plan, the loader as one line."""
    problem = _captured(situation)
    written = plan_written(_expert(), problem, _plan(problem, asked))
    given_up = [f"Lowering gave up: {why}" for why in dict.fromkeys(written.given_up.values())]
    return "\n".join([*given_up, fold(written.candidate.source)])


def _plan(problem: Problem, asked: ExpertPlan) -> Plan:
    """Return the plan with parameters that are left out at the expert's first guess.

    Raises UserError for a move that the expert does not list.
    """
    kept = Plan()
    for number, move in enumerate(asked.moves, start=1):
        found = [one for one in possible_moves(_expert(), problem, kept) if one.skill == move.skill]
        place = next((one for one in found if move.region in (None, one.region)), None)
        if place is None:
            where = ", ".join(one.region for one in found) or "nowhere on this plan"
            raise UserError(f"move {number}: {move.skill} applies at: {where}")
        for name, value in move.params.items():
            if value not in place.params.get(name, ()):
                raise UserError(f"move {number}: no {name} = {value!r}; {_move_line(place)}")
        params = {name: values[0] for name, values in place.params.items()} | move.params
        kept = kept.then(Move(skill=move.skill, region=place.region, params=params))
    return kept


def _captured(situation: Situation) -> Problem:
    if not situation.problem.captured:
        raise UserError("the task cannot be captured to a graph, so the expert has no plan for it")
    return situation.problem
