"""The model Selector: base and contrast from a table of timings."""

from kernelwright.agents.llm.answers import Judged
from kernelwright.agents.llm.asking import Asker, refused
from kernelwright.agents.llm.outputs import PickedPair
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.roles import Pick, Situation
from kernelwright.core.model_call import CallOutcome


class ModelSelector:
    """Fills the Selector's seat."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def select(self, situation: Situation) -> Pick | None:
        """Return verified members of the window; a single one needs no call. Raises UnusableAnswer."""
        ids = [node.candidate.id for node in situation.window if node.evaluation.is_verified]
        if not ids:
            return None
        if len(set(ids)) == 1:
            return Pick(ids[0], ids[0], "the only verified kernel")

        def judge(picked: PickedPair) -> Judged[Pick]:
            base, reference = picked.base.strip(), picked.reference.strip()
            unknown = [name for name in (base, reference) if name not in ids]
            if unknown:
                detail = f"not the id of a verified kernel in the table: {', '.join(unknown)}"
                return refused(CallOutcome.INVALID_OUTPUT, detail)
            if base == reference:
                return refused(CallOutcome.INVALID_OUTPUT, "base and reference are the same kernel")
            return Judged(CallOutcome.OK, Pick(base, reference, " ".join(picked.why.split())))

        told = PromptInput(situation, self._asker.skills)
        return self._asker.structured("selector", told, PickedPair, judge)
