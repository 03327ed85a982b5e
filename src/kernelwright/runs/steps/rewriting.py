"""Improvements, or repairs, that no plan of another role led to."""

from dataclasses import dataclass

from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.plan import Move
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.runs.step_context import Desk
from kernelwright.runs.view import Selection
from kernelwright.runs.windows import Window

CHILDREN = Window(("children",))
"""What was made of the base already: the least a Coder must see to write something else."""


@dataclass(frozen=True)
class Rewrite:
    """The Coder alone, on a correct base or on a failing one with its log.

    Source: CUDA-LLM's FSR, and the plain baselines best-of-N and refine.
    """

    window: Window = CHILDREN

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand in up to ``selection.count`` rewrites of the base; without any new one it is exhausted."""
        base_id = str(selection.base)
        situation = desk.situation(base_id, self.window)
        try:
            candidates = desk.team.coder.rewrite(situation, selection.count)
        except UnusableAnswer as error:
            desk.note("coder", str(error), candidate=base_id)
            return
        except LoweringError:
            candidates = ()
        new = [candidate for candidate in candidates if not desk.is_known(candidate)]
        if not new:
            self._give_up(desk, situation)
        for candidate in new:
            self._submit(desk, situation, candidate)

    def _give_up(self, desk: Desk, situation: Situation) -> None:
        assert situation.base is not None
        base_id = situation.base.candidate.id
        if not situation.base.evaluation.is_verified:
            desk.state.short_term.give_up(base_id, "no repair left to try")
        desk.exhaust(base_id)

    def _submit(self, desk: Desk, situation: Situation, candidate: Candidate) -> None:
        """Record what was changed, then evaluate; on a failing base it is a repair of the idea behind it."""
        assert situation.base is not None
        base = situation.base.candidate
        move = move_between(base, candidate, desk.state.short_term)
        if situation.base.evaluation.is_verified:
            desk.choose(base.id, Choice(move), situation.analysis)
        else:
            desk.choose_repair(base.id, move)
        desk.submit(candidate, base.id)


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
