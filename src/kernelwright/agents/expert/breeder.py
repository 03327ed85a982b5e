"""The expert Breeder: plans from archived plans and from single moves, crossed move by move."""

import random
from collections.abc import Iterable, Iterator

from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.plan_edits import GenePool, without_library
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.roles import Situation
from kernelwright.agents.roofline_class import RooflineClass, roofline_class
from kernelwright.core.evidence import Bottleneck
from kernelwright.core.plan import Move, Plan

N_SEED_PLANS = 3
"""Seeds of the Generator whose plans join the first population."""
ARCHIVE_SHARE = 0.5
"""Of a population, at most, from archived plans; our choice."""
INHERIT_STEERED = 0.9
"""Chance that a child keeps a move that only one parent has and the roofline class asks for; our choice."""
INHERIT_OTHER = 0.6
"""The same for any other move; our choice."""
MUTATION_RATE = 0.3
"""Chance that a child gets one untried move besides; one that repeats a parent always does. Ours."""
MUTATION_POOL = 6
"""Best untried moves among which a mutation draws; our choice."""
STEERS: dict[RooflineClass, frozenset[Bottleneck]] = {
    "memory": frozenset({Bottleneck.MEMORY_BANDWIDTH, Bottleneck.EXTRA_TRAFFIC}),
    "compute": frozenset({Bottleneck.COMPUTE, Bottleneck.LIBRARY, Bottleneck.REDUNDANT_WORK}),
    "middle": frozenset(Bottleneck),
}
"""Which bottlenecks a roofline class asks to be answered."""


class ExpertBreeder:
    """Fills the Breeder's seat; it looks at plans and at the programs they lower to, never at source."""

    def __init__(self, workshop: PlanLowering, planner: ExpertPlanner) -> None:
        self._workshop = workshop
        self._generator = ExpertGenerator(workshop)
        self._genes = GenePool(workshop, planner)

    def recall(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return archived plans with their places on this task (see roles.Breeder), no seed's among them."""
        known = {node.candidate.plan.id: node.candidate.plan for node in situation.window}
        found = dict(known)
        _collect(found, self._archived(situation), len(known) + count)
        return tuple(found.values())[len(known) :]

    def populate(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return up to ``count`` different plans, none of them the base's own or one in the window.

        First archived plans of tasks like this one, re-sited, for at most half of the places; then the
        Generator's plans where the base is vanilla; then the base's plan with one more move each, one
        move a skill first.
        """
        own = situation.base.candidate.plan if situation.base is not None else Plan()
        known = {own.id: own} | {node.candidate.plan.id: node.candidate.plan for node in situation.window}
        found = dict(known)
        n_archived = int(count * ARCHIVE_SHARE)
        _collect(found, self._archived(situation), len(known) + n_archived)
        _collect(found, self._proposed(situation, own), len(known) + count)
        return tuple(found.values())[len(known) :]

    def cross(self, situation: Situation, first: Plan, second: Plan) -> Plan | None:
        """Return the parents' common moves and a draw of the others, steered by the roofline class.

        None when not even an untried move makes it differ from both parents and from the window's plans.
        """
        draw = random.Random(f"{situation.chance}:{first.id}:{second.id}")
        parents = without_library(first), without_library(second)
        carried_out = (node.candidate.plan for node in situation.window)
        known = {plan.id for plan in (first, second, *parents, *carried_out)}
        child = self._genes.applicable(situation.problem, self._recombined(situation, draw, *parents))
        if child.id in known or draw.random() < MUTATION_RATE:
            child = self._mutated(situation, draw, child, known)
        return None if child.id in known else child

    def _archived(self, situation: Situation) -> Iterator[Plan]:
        for archived in situation.archive:
            plan = self._genes.resited(situation.problem, archived.plan)
            if plan.moves:
                yield plan

    def _proposed(self, situation: Situation, own: Plan) -> Iterator[Plan]:
        ground = without_library(own)
        if not ground.moves:
            yield from (seed.plan for seed in self._generator.seeds(situation, N_SEED_PLANS))
        moves = self._genes.next_moves(situation, ground)
        skills = {move.skill: move for move in reversed(moves)}
        first_of_skill = [move for move in moves if skills[move.skill] is move]
        for move in (*first_of_skill, *moves):
            yield ground.then(move)

    def _recombined(self, situation: Situation, draw: random.Random, first: Plan, second: Plan) -> Plan:
        """Return the union of the moves in order, less those drawn to be left out; one value a place."""
        shared = {move.key for move in first.moves} & {move.key for move in second.moves}
        kept: dict[tuple[str, str | None], Move] = {}
        for move in (*first.moves, *second.moves):
            place = move.skill, move.region
            rival = kept.get(place)
            if move.key not in shared and draw.random() >= self._chance(situation, move):
                continue
            if rival is None or (rival.key != move.key and rival.key not in shared and draw.random() < 0.5):
                kept[place] = move
        return Plan(moves=tuple(kept.values()))

    def _chance(self, situation: Situation, move: Move) -> float:
        """Return the chance that a child keeps a move of one parent; a repair, which is no skill, stays."""
        skill = self._workshop.skills.get(move.skill)
        if skill is None:
            return 1.0
        steered = STEERS[roofline_class(situation.problem)]
        return INHERIT_OTHER if steered.isdisjoint(skill.bottlenecks) else INHERIT_STEERED

    def _mutated(self, situation: Situation, draw: random.Random, child: Plan, known: set[str]) -> Plan:
        longer = (child.then(move) for move in self._genes.next_moves(situation, child))
        new = [plan for plan in longer if plan.id not in known][:MUTATION_POOL]
        return draw.choice(new) if new else child


def _collect(found: dict[str, Plan], plans: Iterable[Plan], size: int) -> None:
    """Add plans that are not there yet, until there are so many."""
    further = iter(plans)
    while len(found) < size and (plan := next(further, None)) is not None:  # finding places takes long
        found.setdefault(plan.id, plan)
