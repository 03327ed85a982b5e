"""The model Planner: exactly one move, founded on evidence that was given, never one that was tried."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from kernelwright.agents.llm.answers import ExpectedAnswer, Judged, has_native_kernel, read_move
from kernelwright.agents.llm.asking import Asker, CodeQuestion, WrittenSource
from kernelwright.agents.llm.coder import check_source
from kernelwright.agents.llm.guidance import evidence_text
from kernelwright.agents.llm.outputs import AnchoredMove, ProposedMove
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.proposals import (
    Offer,
    find_repetition,
    find_unfounded,
    mended,
    menu_of,
    skills_offered,
    to_move,
)
from kernelwright.agents.llm.sources import unfold
from kernelwright.agents.llm.span_markers import find_anchor_problem
from kernelwright.agents.roles import Analysis, Choice, Situation
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move

MAX_MENU = 30
"""Concrete moves on offer; our choice."""

Moves = Callable[[Situation], list[Move]]
"""The untried moves that the Coder at work can carry out, best first."""


class ModelPlanner:
    """Fills the Planner's seat.

    Args:
        moves: For a Coder that carries out moves of its own making only: what it can do on this base. None:
            the Coder reads plans in words.
        coder: The Coder's line to its model, which is then asked for the move and its kernel in one answer.
            None: the Coder is asked afterwards. Marked spans always take two answers.
    """

    def __init__(self, asker: Asker, moves: Moves | None = None, *, coder: Asker | None = None) -> None:
        self._asker = asker
        self._moves = moves
        self._coder = coder

    def plan(self, situation: Situation) -> Choice | None:
        """Return one move (see roles.Planner); raises UnusableAnswer when two answers were refused."""
        if situation.base is None:
            return None
        menu = menu_of(self._moves(situation)[:MAX_MENU]) if self._moves is not None else {}
        if self._moves is not None and not menu:
            return None
        recommended = _analysis(situation) if situation.has_long_term else None
        skills = () if self._moves is not None else skills_offered(recommended)
        offer = Offer(menu, skills)
        told = PromptInput(situation, self._asker.skills, menu=menu, only_menu=offer.only_menu)
        has_evidence = _analysis(situation) is not None
        writes = self._coder is not None and not situation.wants_anchors and not offer.only_menu
        heard = (self._coder if writes and self._coder is not None else self._asker).heard
        judge = _Judge(situation, offer, evidence_text(told) if has_evidence else None, heard)
        if situation.wants_anchors and not offer.only_menu:
            return self._asker.structured(
                "planner_anchors",
                told,
                AnchoredMove,
                judge.anchored,
                allowed=offer.skills,
                needs_evidence=has_evidence,
            )
        if self._coder is not None and not offer.only_menu:
            return _written(self._coder, told, offer, judge, needs_evidence=has_evidence)
        return self._asker.structured(
            "planner",
            told,
            ProposedMove,
            judge.plain,
            allowed=offer.names,
            only_menu=offer.only_menu,
            needs_evidence=has_evidence,
        )


@dataclass(frozen=True)
class _Judge:
    """Checks a proposal; the reasons are for the model's second try."""

    situation: Situation
    offer: Offer
    evidence: str | None
    """What figures may be quoted from; None where the recipe gives none."""
    heard: Sequence[str] = ()
    """What tools said before the answer: figures may be quoted from it too."""

    def plain(self, proposed: ProposedMove) -> Judged[Choice]:
        move = to_move(proposed, self.offer)
        if isinstance(move, str):
            return Judged(CallOutcome.INVALID_OUTPUT, detail=move)
        problem = find_repetition(move, proposed, self.situation)
        if problem is None and self.evidence is not None:
            problem = find_unfounded(proposed.evidence, "\n".join([self.evidence, *self.heard]))
        if problem is not None:
            return Judged(CallOutcome.INVALID_OUTPUT, detail=problem)
        return Judged(CallOutcome.OK, Choice(move=move.model_copy(update={"why": _why(move, proposed)})))

    def written(self, one: WrittenSource, chosen: Collection[str]) -> Choice:
        """Return the move of a kernel that is there already; what is wrong with it is left out.

        ``chosen`` holds the keys of the moves that the same answer announced before it.
        """
        evidence = None if self.evidence is None else "\n".join([self.evidence, *self.heard])
        proposed = read_move(one.text)
        move, founded = mended(proposed, self.offer, self.situation, evidence, one.source, chosen)
        move = move.model_copy(update={"why": _why(move, founded)})
        return Choice(move=move, source=one.source, call=one.call)

    def anchored(self, proposed: AnchoredMove) -> Judged[Choice]:
        judged = self.plain(proposed)
        if judged.value is None or self.situation.base is None:
            return judged
        source = unfold(proposed.anchored_source)
        problem = find_anchor_problem(source, self.situation.base.candidate.source)
        if problem is not None:
            return Judged(CallOutcome.INVALID_OUTPUT, detail=problem)
        return Judged(CallOutcome.OK, Choice(move=judged.value.move, anchored=source))


def _written(asker: Asker, told: PromptInput, offer: Offer, judge: _Judge, *, needs_evidence: bool) -> Choice:
    """Return a move with the kernel that carries it out, and the further ones of the same answer.

    The referee judges the kernels, whatever is wrong with the words beside them. Raises UnusableAnswer.
    """
    base = told.base
    assert base is not None
    problem, left = told.problem, told.situation.evaluations_left
    expected = ExpectedAnswer(
        problem.task.source,
        problem.target,
        needs_kernel=has_native_kernel(base.candidate.source, problem.target),
    )
    question = CodeQuestion(
        "planner_writes",
        told,
        expected,
        check_source(base.candidate.source),
        most=asker.kernels if left is None else max(1, min(asker.kernels, left)),
        facts={"allowed": offer.skills, "needs_evidence": needs_evidence},
    )
    choices: list[Choice] = []
    for one in asker.sources(question):
        choices.append(judge.written(one, [chosen.move.key for chosen in choices]))
    return replace(choices[0], further=tuple(choices[1:]))


def _why(move: Move, proposed: ProposedMove) -> str:
    """Return the reason with the evidence quoted for it."""
    quotes = "; ".join(" ".join(quote.split()) for quote in proposed.evidence)
    return f"{move.why} ({quotes})" if quotes else move.why


def _analysis(situation: Situation) -> Analysis | None:
    return None if situation.timings_only else situation.analysis
