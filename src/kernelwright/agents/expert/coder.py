"""The expert Coder: a plan is carried out by lowering it."""

from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.workshop import Workshop
from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Plan

MAX_REFUSED = 40
"""Moves in a row that cannot be carried out before a rewrite gives up; ours."""


class ExpertCoder:
    """Fills the Coder's seat (see roles.Coder)."""

    def __init__(self, workshop: Workshop, planner: ExpertPlanner) -> None:
        self._workshop = workshop
        self._planner = planner

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        """Lower the base's plan with one more move."""
        assert situation.base is not None
        base = situation.base.candidate
        return self._lower(situation, base.plan.then(choice.move), (base.id,))

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        """Lower a whole plan from the reference on; moves that have lost their place are left out."""
        kept = Plan()
        for move in plan.moves:
            try:
                self._workshop.carried(situation.problem, kept.then(move))
            except LoweringError:
                continue
            kept = kept.then(move)
        if plan.moves and not kept.moves:
            raise LoweringError("no move of the plan applies to this task")
        base = situation.base
        return self._lower(situation, kept, () if base is None else (base.candidate.id,))

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Lower the base's plan with each of its best untried moves: one candidate a move."""
        assert situation.base is not None
        base = situation.base.candidate
        found: dict[str, Candidate] = {}
        for move in self._planner.untried(situation)[:MAX_REFUSED]:
            if len(found) >= count:
                break
            try:
                candidate = self._lower(situation, base.plan.then(move), (base.id,))
            except LoweringError:
                continue
            found.setdefault(candidate.id, candidate)
        return tuple(found.values())

    def _lower(self, situation: Situation, plan: Plan, parents: tuple[str, ...]) -> Candidate:
        return self._workshop.candidate(situation.problem, plan, parents=parents, role="coder")
