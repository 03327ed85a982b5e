"""The model Designer: avenues to widen the view, then rated experiments."""

from kernelwright.agents.llm.answers import Judged
from kernelwright.agents.llm.asking import Asker, refused
from kernelwright.agents.llm.guidance import literature
from kernelwright.agents.llm.outputs import ProposedDesign, ProposedExperiment
from kernelwright.agents.llm.planner import MAX_MENU, Moves
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.proposals import FREE, Offer, find_repetition, menu_of, skills_offered, to_move
from kernelwright.agents.roles import Design, Experiment, Situation
from kernelwright.core.model_call import CallOutcome


class ModelDesigner:
    """Fills the Designer's seat; ``moves`` as in the Planner."""

    def __init__(self, asker: Asker, moves: Moves | None = None) -> None:
        self._asker = asker
        self._moves = moves

    def design(self, situation: Situation, avenues: int, experiments: int) -> Design:
        """Return up to that many of each, unknown and repeated ones left out; raises UnusableAnswer."""
        menu = menu_of(self._moves(situation)[:MAX_MENU]) if self._moves is not None else {}
        if self._moves is not None and not menu:
            return Design((), ())
        told = PromptInput(situation, self._asker.skills, menu=menu, only_menu=self._moves is not None)
        known = (*literature(told), FREE) if situation.timings_only else skills_offered(situation.analysis)
        offer = Offer(menu, () if self._moves is not None else known)

        def judge(proposed: ProposedDesign) -> Judged[Design]:
            found: dict[str, Experiment] = {}
            problem = "no experiment was given"
            for item in proposed.experiments:
                rated = _experiment(item, offer, situation)
                if isinstance(rated, str):
                    problem = rated
                else:
                    found.setdefault(rated.move.key, rated)
            if not found:
                return refused(CallOutcome.INVALID_OUTPUT, problem)
            ways = tuple(" ".join(avenue.split()) for avenue in proposed.avenues if avenue.strip())
            return Judged(CallOutcome.OK, Design(ways[:avenues], tuple(found.values())[:experiments]))

        return self._asker.structured(
            "designer",
            told,
            ProposedDesign,
            judge,
            allowed=offer.names,
            only_menu=offer.only_menu,
            n_avenues=avenues,
            n_experiments=experiments,
        )


def _experiment(item: ProposedExperiment, offer: Offer, situation: Situation) -> Experiment | str:
    move = to_move(item, offer)
    if isinstance(move, str):
        return move
    repeated = find_repetition(move, item, situation)
    if repeated is not None:
        return repeated
    low, high = sorted((item.gain_low, item.gain_high))
    return Experiment(move, low, high, item.innovation)
