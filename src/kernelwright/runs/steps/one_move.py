"""One new move on a base: analyse, plan, write, evaluate."""

from dataclasses import dataclass, replace

from kernelwright.agents.roles import ANCHORING, Choice, Situation
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.runs.step_context import NO_WINDOW, StepContext
from kernelwright.runs.view import Selection
from kernelwright.runs.windows import NodeWindow

MAX_FAILED_MOVES = 40
"""Moves in a row that could not be carried out before the base counts as exhausted; our choice."""
MAX_PAID_MOVES = 3
"""The same of moves that models are paid for, after which the step is in vain; our choice."""


@dataclass(frozen=True)
class OneMove:
    """Planner, then Coder; each may be shown other nodes of the run.

    Source: KernelSkill (one method a round), STARK (windows and anchors).
    """

    plan_window: NodeWindow = NO_WINDOW
    code_window: NodeWindow = NO_WINDOW
    wants_anchors: bool = False
    has_short_term: bool = True
    """False in an ablation: the Planner may repeat what was tried, and pays for it with the step."""

    @property
    def seats(self) -> tuple[str, ...]:
        """See StepKind: marking spans is a question of its own."""
        return (ANCHORING if self.wants_anchors else "planner", "coder")

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in the base with one more move, each by itself where an answer held several.

        Without any move left the base is exhausted.
        """
        base_id = str(selection.base)
        context.state.base = base_id
        situation = context.situation(base_id, self.plan_window, wants_anchors=self.wants_anchors)
        is_tuned = situation.is_tuned or selection.leaves_schedules
        situation = replace(situation, is_tuned=is_tuned, needed=selection.needed)
        if not self.has_short_term:
            situation = replace(situation, memory=ShortTermMemory(), run=(), has_short_term=False)
        is_paid = any(context.team.calls.get(seat) for seat in self.seats)
        for n in range(MAX_PAID_MOVES if is_paid else MAX_FAILED_MOVES):
            if n:
                context.require_calls(self.seats)
            try:
                choice = context.team.planner.plan(situation)
            except UnusableAnswer as error:
                context.note("planner", str(error), candidate=base_id)
                return
            except LoweringError:
                choice = None  # an expert Planner on a base that was written in words
            if choice is None:
                break
            choices = (choice, *choice.further)
            if any([self._is_carried_out(context, situation, one) for one in choices]):
                return
        else:
            if is_paid:
                return
        context.exhaust(base_id)

    def _is_carried_out(self, context: StepContext, situation: Situation, choice: Choice) -> bool:
        """Record, write and hand in; False when another move should be asked for."""
        assert situation.base is not None
        base_id = situation.base.candidate.id
        context.choose(base_id, choice, situation.analysis)
        seen = context.window(base_id, self.code_window)
        try:
            candidate = context.team.coder.write(replace(situation, window=seen), choice)
        except UnusableAnswer as error:
            context.fail(base_id, choice.move, str(error))
            return True
        except LoweringError as error:
            context.fail(base_id, choice.move, str(error))
            return False
        if context.is_known(candidate):
            context.fail(base_id, choice.move, context.repetition(candidate))
            return not self.has_short_term  # a Planner that remembers nothing would draw it again
        context.submit(candidate, base_id)
        return True
