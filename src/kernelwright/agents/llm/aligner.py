"""The model Aligner: the plan that a source really carries out."""

from kernelwright.agents.llm.answers import Judged
from kernelwright.agents.llm.asking import Asker, refused
from kernelwright.agents.llm.outputs import AlignedPlan, PlanItem
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.proposals import FREE, without_repairs
from kernelwright.agents.roles import Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move, Plan

MAX_UNANNOUNCED = 4
"""Unannounced changes that enter a plan; our choice."""


class ModelAligner:
    """Fills the Aligner's seat."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def align(self, situation: Situation, candidate: Candidate) -> Plan:
        """Return the plan carried out, without repairs; the announced one where no answer can be used.

        A plan that announces nothing is not asked about.
        """
        plan = without_repairs(candidate.plan)
        if not plan.moves:
            return plan

        def judge(aligned: AlignedPlan) -> Judged[Plan]:
            items = {item.number: item for item in aligned.items}
            missing = [str(n) for n in range(1, len(plan.moves) + 1) if n not in items]
            if missing:
                detail = f"no item for step {', '.join(missing)} of the plan"
                return refused(CallOutcome.INVALID_OUTPUT, detail)
            kept = [
                _done(move, items[n]) for n, move in enumerate(plan.moves, start=1) if items[n].is_carried_out
            ]
            more = [" ".join(text.split()) for text in aligned.unannounced if text.strip()][:MAX_UNANNOUNCED]
            moves = (*kept, *(Move(skill=FREE, text=f"1. {text}") for text in more))
            return Judged(CallOutcome.OK, Plan(moves=moves))

        told = PromptInput(situation, self._asker.skills, plan=plan, source=candidate.source)
        try:
            return self._asker.structured("aligner", told, AlignedPlan, judge)
        except UnusableAnswer:
            return plan


def _done(move: Move, item: PlanItem) -> Move:
    """Return the move as it was carried out."""
    what = " ".join(item.what.split())
    return move if not what else move.model_copy(update={"text": f"1. {what}"})
