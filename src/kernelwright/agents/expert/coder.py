"""The expert Coder: a plan is carried out by lowering it."""

from collections.abc import Iterable, Iterator, Sequence

from kernelwright.agents.expert.debugger import ExpertDebugger
from kernelwright.agents.expert.extend import extend
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.expert.planner import SCHEDULE, ExpertPlanner
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Move, Plan

MAX_REFUSED = 40
"""Moves in a row that cannot be carried out before a rewrite gives up; our choice."""


class ExpertCoder:
    """Fills the Coder's seat (see roles.Coder)."""

    def __init__(self, workshop: PlanLowering, planner: ExpertPlanner, debugger: ExpertDebugger) -> None:
        self._workshop = workshop
        self._planner = planner
        self._debugger = debugger

    def expect(self, situation: Situation, coming: Sequence[Plan]) -> None:
        """Do nothing: every kernel is written at once when it is wanted."""

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        """Lower the base's plan after one more move."""
        assert situation.base is not None
        base = situation.base.candidate
        plan = extend(base.plan, choice.move)
        if situation.is_tuned:
            plan = self._refitted(situation.problem, plan)
        return self._lower(situation, plan, (base.id,))

    def _refitted(self, problem: Problem, plan: Plan) -> Plan:
        """Return a plan without the schedules that have lost their region: another graph is tuned again."""
        known = self._workshop.lowering_of
        schedules = [m for m in plan.moves if known.get(m.skill, m.skill).startswith(SCHEDULE)]
        kept = Plan(moves=tuple(move for move in plan.moves if move not in schedules))
        return self._fitting(problem, kept, schedules)

    def _fitting(self, problem: Problem, kept: Plan, moves: Iterable[Move]) -> Plan:
        """Return a plan with those of some further moves that can be carried out after it."""
        for move in moves:
            try:
                self._workshop.carried(problem, kept.then(move))
            except LoweringError:
                continue
            kept = kept.then(move)
        return kept

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        """Lower a whole plan from the reference on; moves that have lost their place are left out."""
        kept = self._fitting(situation.problem, Plan(), plan.moves)
        if plan.moves and not kept.moves:
            raise LoweringError("no move of the plan applies to this task")
        base = situation.base
        return self._lower(situation, kept, () if base is None else (base.candidate.id,))

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Lower the base with each of its best untried moves, or of its repairs: one candidate a move.

        What the window shows, or the run has evaluated, is not written again.
        """
        assert situation.base is not None
        is_verified = situation.base.evaluation.is_verified
        written = self._improvements(situation) if is_verified else self._repairs(situation)
        seen = situation.evaluated | {situation.base.candidate.id}
        seen |= {node.candidate.id for node in situation.window}
        found: dict[str, Candidate] = {}
        for candidate in written:
            if candidate.id not in seen:
                found.setdefault(candidate.id, candidate)
            if len(found) >= count:
                break
        return tuple(found.values())

    def _improvements(self, situation: Situation) -> Iterator[Candidate]:
        """Yield what the untried moves lower to, until too many in a row cannot be carried out."""
        assert situation.base is not None
        base, refused = situation.base.candidate, 0
        for move in self._planner.untried(situation):
            try:
                candidate = self._lower(situation, extend(base.plan, move), (base.id,))
            except LoweringError:
                refused += 1
                if refused >= MAX_REFUSED:
                    return
                continue
            refused = 0
            yield candidate

    def _repairs(self, situation: Situation) -> Iterator[Candidate]:
        """Yield the Debugger's ideas, one by one."""
        tried: list[str] = []
        while (repaired := self._debugger.repair(situation, tuple(tried))) is not None:
            candidate, move = repaired
            tried.append(move.key)
            yield candidate.model_copy(update={"role": "coder"})

    def _lower(self, situation: Situation, plan: Plan, parents: tuple[str, ...]) -> Candidate:
        return self._workshop.candidate(situation.problem, plan, parents=parents, role="coder")
