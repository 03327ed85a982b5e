"""Plans as genomes: what of a plan can be carried out here, and which moves may still join it."""

from kernelwright.agents.expert.plan_lowering import LIBRARY_MOVE, PlanLowering
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.static_facts import static_analysis
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Situation
from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Move, Plan
from kernelwright.ir.edits import Site
from kernelwright.ir.plan_lowering import sites
from kernelwright.memory.archive import distil

MAX_SITES = 128
"""Places at which one archived move is taken up at once; ours, so that a large network stays affordable."""
MAX_SINGLE_SITES = 8
"""The same where not all of them are possible together, and one after the other is tried."""


class GenePool:
    """Reads moves and plans against a task's programs; no source is looked at."""

    def __init__(self, workshop: PlanLowering, planner: ExpertPlanner) -> None:
        self._workshop = workshop
        self._planner = planner

    def applicable(self, problem: Problem, plan: Plan) -> Plan:
        """Return the plan without the moves that cannot be carried out after the ones before them."""
        kept = Plan()
        for move in plan.moves:
            longer = kept.then(move)
            if move.key not in {m.key for m in kept.moves} and self._is_possible(problem, longer):
                kept = longer
        return kept

    def resited(self, problem: Problem, plan: Plan) -> Plan:
        """Return a plan of another task with the same skills wherever they have a place on this one.

        A parameter value that the place does not know gives way to the one that the place would try first.
        """
        kept = Plan()
        for bare in distil(plan).moves:
            lowering = self._workshop.lowerings(problem).get(bare.skill)
            carried = self._workshop.carried(problem, kept)
            places = sites(carried, lowering)[:MAX_SITES] if lowering else ()
            moves = [_at(bare, site) for site in places]
            together = Plan(moves=(*kept.moves, *moves))
            if self._is_possible(problem, together):
                kept = together
                continue
            for move in moves[:MAX_SINGLE_SITES]:
                if self._is_possible(problem, longer := kept.then(move)):
                    kept = longer
        return kept

    def next_moves(self, situation: Situation, plan: Plan) -> tuple[Move, ...]:
        """Return the moves that may still join a plan, best first.

        Ranked by the situation's analysis, by static facts where there is none.
        """
        problem = situation.problem
        analysis = situation.analysis or static_analysis(self._workshop, problem, plan, situation.ledger)
        return tuple(self._planner.offered(situation, plan, analysis))

    def _is_possible(self, problem: Problem, plan: Plan) -> bool:
        try:
            self._workshop.carried(problem, plan)
        except LoweringError:
            return False
        return True


def without_library(plan: Plan) -> Plan:
    """Return the plan without the move that turns every other one off."""
    return Plan(moves=tuple(move for move in plan.moves if move.skill != LIBRARY_MOVE.skill))


def _at(move: Move, site: Site) -> Move:
    params = {
        name: move.params[name] if move.params.get(name) in values else values[0]
        for name, values in site.params.items()
    }
    return Move(skill=move.skill, region=site.region, params=params, why=f"archived; {site.why}")
