"""Improvements, or repairs, that no plan of another role led to."""

from dataclasses import dataclass, replace
from typing import ClassVar

from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.plan import Move
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.runs.step_context import StepContext
from kernelwright.runs.view import Selection
from kernelwright.runs.windows import NodeWindow

CHILDREN = NodeWindow(("children",))
"""What was made of the base already: the least a Coder must see to write something else."""


@dataclass(frozen=True)
class Rewriting:
    """The Coder alone, on a correct base or on a failing one with its log.

    Source: CUDA-LLM's FSR, and the plain baselines best-of-N and refine.
    """

    seats: ClassVar[tuple[str, ...]] = ("coder",)

    window: NodeWindow = CHILDREN
    is_guided: bool = True
    """False in an ablation: no ranking of skills stands in for the plan that nobody makes."""

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in up to ``selection.count`` rewrites of the base; without any new one it is exhausted."""
        base_id = str(selection.base)
        situation = context.situation(base_id, self.window)
        if not self.is_guided:
            situation = replace(situation, has_long_term=False)
        try:
            candidates = context.team.coder.rewrite(situation, selection.count)
        except UnusableAnswer as error:
            context.note("coder", str(error), candidate=base_id)
            return
        except LoweringError:
            candidates = ()
        new = [candidate for candidate in candidates if not context.is_known(candidate)]
        if not new:
            self._give_up(context, situation)
        for candidate in new:
            self._submit(context, situation, candidate)

    def _give_up(self, context: StepContext, situation: Situation) -> None:
        assert situation.base is not None
        base_id = situation.base.candidate.id
        if not situation.base.evaluation.is_verified:
            context.state.short_term.give_up(base_id, "no repair left to try")
        context.exhaust(base_id)

    def _submit(self, context: StepContext, situation: Situation, candidate: Candidate) -> None:
        """Record what was changed, then evaluate; on a failing base it is a repair of the idea behind it."""
        assert situation.base is not None
        base = situation.base.candidate
        move = move_between(base, candidate, context.state.short_term)
        if situation.base.evaluation.is_verified:
            context.choose(base.id, Choice(move), situation.analysis)
        else:
            context.choose_repair(base.id, move)
        context.submit(candidate, base.id)


def move_between(base: Candidate, candidate: Candidate, memory: ShortTermMemory) -> Move:
    """Return what a rewrite did, as far as the two plans tell; never a move that the base has seen."""
    own = {move.key for move in base.plan.moves}
    kept = {move.key for move in candidate.plan.moves}
    added = [move for move in candidate.plan.moves if move.key not in own]
    dropped = [move.skill for move in base.plan.moves if move.key not in kept]
    why = f"takes back {', '.join(dropped)}" if dropped else ""
    move = added[-1] if added else Move(skill="rewrite", why=why)
    if not added or memory.is_tried(base.id, move):
        return move.model_copy(update={"params": {**move.params, "candidate": candidate.id[:8]}})
    return move
