"""The model Breeder: plans from plans and the roofline class; it is never shown a source.

Source: cuPilot (arXiv 2512.16465), whose crossover of plans sees no code.
"""

from collections.abc import Mapping

from kernelwright.agents.llm.answers import Judged
from kernelwright.agents.llm.asking import Asker, refused
from kernelwright.agents.llm.formatting import plan_lines, verdict
from kernelwright.agents.llm.outputs import ProposedPlan, ProposedPlans
from kernelwright.agents.llm.planner import MAX_MENU, Moves
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.llm.proposals import FREE, Offer, menu_of, skills_offered, to_move, without_repairs
from kernelwright.agents.roles import Situation
from kernelwright.agents.roofline_class import roofline_class
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move, Plan

ARCHIVED_SHARE = 0.5
"""Largest share of a first population that comes from the archive; our choice."""
MAX_MOVES = 8
"""Moves of one plan that are kept; our choice."""
MAX_PLANS = 8
"""Plans that one answer is asked for, as an answer has a limit of tokens; our choice."""


class ModelBreeder:
    """Fills the Breeder's seat; ``moves`` as in the Planner."""

    def __init__(self, asker: Asker, moves: Moves | None = None) -> None:
        self._asker = asker
        self._moves = moves

    def recall(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return archived plans as they are; nobody is asked, and the Coder finds them their places."""
        kept = (archived.plan for archived in situation.archive if archived.plan.moves)
        return tuple({plan.id: plan for plan in kept}.values())[:count]

    def populate(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return archived plans, then the model's; raises UnusableAnswer when there are neither."""
        plans = {plan.id: plan for plan in self.recall(situation, int(ARCHIVED_SHARE * count))}
        menu = menu_of(self._moves(situation)[:MAX_MENU]) if self._moves is not None else {}
        if count <= len(plans) or (self._moves is not None and not menu):
            return tuple(plans.values())
        offer = self._offer(situation, {**menu, **menu_of(_plan_of_base(situation).moves, "b")})
        try:
            made = self._composed(situation, offer, count - len(plans))
        except UnusableAnswer:
            if not plans:
                raise
            made = ()
        for plan in made:
            plans.setdefault(plan.id, plan)
        return tuple(plans.values())[:count]

    def cross(self, situation: Situation, first: Plan, second: Plan) -> Plan | None:
        """Return a plan of both parents' moves (see roles.Breeder); raises UnusableAnswer."""
        first, second = without_repairs(first), without_repairs(second)
        parents = {**menu_of(first.moves, "a"), **menu_of(second.moves, "b")}
        if self._moves is not None and len({move.key for move in parents.values()}) < 2:
            return None
        offer = self._offer(situation, parents)

        def judge(proposed: ProposedPlan) -> Judged[Plan]:
            plan = _plan(proposed, offer)
            if isinstance(plan, str):
                return refused(CallOutcome.INVALID_OUTPUT, plan)
            if plan.id in (first.id, second.id):
                return refused(CallOutcome.INVALID_OUTPUT, "the plan repeats one of its parents")
            return Judged(CallOutcome.OK, plan)

        return self._asker.structured(
            "breeder_cross",
            PromptInput(situation, self._asker.skills, menu=parents, only_menu=offer.only_menu),
            ProposedPlan,
            judge,
            allowed=offer.skills,
            **_roofline(situation),
            outcomes=_outcomes(situation, {"a": first, "b": second}),
        )

    def _composed(self, situation: Situation, offer: Offer, count: int) -> tuple[Plan, ...]:
        """Return different plans, MAX_PLANS an answer, until one brings fewer; raises UnusableAnswer."""
        found: dict[str, Plan] = {}
        is_full = True
        while is_full and len(found) < count:
            wanted = min(count - len(found), MAX_PLANS)
            try:
                made = self._of_one_answer(situation, offer, wanted, found)
            except UnusableAnswer:
                if not found:
                    raise
                break
            found.update((plan.id, plan) for plan in made[:wanted])
            is_full = len(made) >= wanted
        return tuple(found.values())

    def _of_one_answer(
        self, situation: Situation, offer: Offer, count: int, composed: Mapping[str, Plan]
    ) -> tuple[Plan, ...]:
        """Return plans that neither have a kernel nor were ``composed`` before; raises UnusableAnswer."""
        known = {*composed, *(without_repairs(node.candidate.plan).id for node in situation.window)}

        def judge(proposed: ProposedPlans) -> Judged[tuple[Plan, ...]]:
            plans = [_plan(item, offer) for item in proposed.plans]
            usable = {plan.id: plan for plan in plans if isinstance(plan, Plan) and plan.id not in known}
            if not usable:
                said = (plan for plan in plans if isinstance(plan, str))
                return refused(
                    CallOutcome.INVALID_OUTPUT,
                    next(said, "every plan was carried out already, or composed before"),
                )
            return Judged(CallOutcome.OK, tuple(usable.values()))

        return self._asker.structured(
            "breeder_populate",
            PromptInput(situation, self._asker.skills, menu=offer.menu, only_menu=offer.only_menu),
            ProposedPlans,
            judge,
            count=count,
            allowed=offer.skills or offer.names,
            only_menu=offer.only_menu,
            composed=[plan_lines(plan) for plan in composed.values()],
            is_later=any(node.candidate.role == "coder" for node in situation.window),
            **_roofline(situation),
        )

    def _offer(self, situation: Situation, menu: Mapping[str, Move]) -> Offer:
        if self._moves is not None:
            return Offer(menu, ())
        if situation.analysis is not None and not situation.timings_only:
            return Offer(menu, skills_offered(situation.analysis))
        target = str(situation.problem.target)
        known = [name for name, skill in self._asker.skills.items() if target in skill.targets]
        return Offer(menu, (*known, FREE))


def _plan(proposed: ProposedPlan, offer: Offer) -> Plan | str:
    """Return the plan, each move once, or why a move is refused."""
    moves: dict[str, Move] = {}
    for item in proposed.moves[:MAX_MOVES]:
        move = to_move(item, offer)
        if isinstance(move, str):
            return move
        moves.setdefault(move.key, move)
    return Plan(moves=tuple(moves.values()))


def _plan_of_base(situation: Situation) -> Plan:
    """Return the base's plan as the window has it: what the Aligner found in its source."""
    base = situation.base
    if base is None:
        return Plan()
    known = (node.candidate for node in situation.window if node.candidate.id == base.candidate.id)
    return without_repairs(next(known, base.candidate).plan)


def _roofline(situation: Situation) -> dict[str, object]:
    """Return the roofline class, None where it is not known or not to be told, and the metrics to watch."""
    problem, analysis = situation.problem, situation.analysis
    if problem.main_floor is None or situation.timings_only:
        return {"bound_by": None, "watched": ()}
    bound_by, watch = roofline_class(problem), prompting_of(problem.target).watch
    names = watch.get(bound_by) or tuple(name for each in watch.values() for name in each)
    measured = [name for name in names if analysis is not None and analysis.evidence.get(name) is not None]
    return {"bound_by": bound_by, "watched": measured}


def _outcomes(situation: Situation, parents: Mapping[str, Plan]) -> str:
    """Return how kernels of the window that carry out a parent's plan ended."""
    lines = [
        f"Plan {label}: {verdict(node.evaluation, timings_only=situation.timings_only)}."
        for label, plan in parents.items()
        for node in situation.window
        if without_repairs(node.candidate.plan).id == plan.id
    ]
    return "\n".join(lines)
