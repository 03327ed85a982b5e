"""The expert Generator: three seeds, from what cannot be wrong to all the algebra it knows."""

from kernelwright.agents.expert.workshop import LIBRARY_MOVE, Workshop
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Move, Plan
from kernelwright.kernels.carry_out import sites

MAX_ALGEBRA_MOVES = 24
"""Rewrites in the algebra seed; ours, far above what any known task needs."""


class ExpertGenerator:
    """Seeds: the library calls as they are, the fused graph, the fused graph after sure algebra."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def root(self, problem: Problem) -> Candidate:
        """Return the library calls as they are (see roles.Generator)."""
        plan = Plan(moves=(LIBRARY_MOVE,))
        return self._workshop.candidate(problem, plan, parents=(), role="generator")

    def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return up to three seeds (see roles.Generator); equal sources appear once."""
        problem = situation.problem
        found: dict[str, Candidate] = {}
        for plan in (Plan(moves=(LIBRARY_MOVE,)), Plan(), self._algebra(problem)):
            seed = self._workshop.candidate(problem, plan, parents=(), role="generator")
            found.setdefault(seed.id, seed)
        return tuple(found.values())[:count]

    def _algebra(self, problem: Problem) -> Plan:
        """Apply every rewrite that analytically pays, the largest gain first."""
        plan = Plan()
        while len(plan.moves) < MAX_ALGEBRA_MOVES:
            longer = self._with_next_rewrite(problem, plan)
            if longer is None:
                break
            plan = longer
        return plan

    def _with_next_rewrite(self, problem: Problem, plan: Plan) -> Plan | None:
        used = {move.key for move in plan.moves}
        for move, _ in self._rewrites(problem, plan):
            if move.key in used:
                continue
            longer = plan.then(move)
            try:
                self._workshop.carried(problem, longer)
            except LoweringError:
                continue
            return longer
        return None

    def _rewrites(self, problem: Problem, plan: Plan) -> list[tuple[Move, float]]:
        carried = self._workshop.carried(problem, plan)
        found = []
        for skill, lowering in self._workshop.lowering_of.items():
            if not lowering.startswith("rewrite:"):
                continue
            for site in sites(carried, lowering):
                if site.gain > 1.0:
                    found.append((Move(skill=skill, region=site.region, why=site.why), site.gain))
        return sorted(found, key=lambda pair: (-pair[1], pair[0].key))
