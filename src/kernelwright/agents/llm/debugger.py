"""The model Debugger: first the root cause with words from the log, then the smallest change.

Source: KernelSkill's Diagnoser and Repairer, two calls. Merged into one answer where the settings say so.
"""

from collections.abc import Collection

from kernelwright.agents.llm.answers import ExpectedAnswer, Judged, has_native_kernel, read_line
from kernelwright.agents.llm.asking import Asker, CodeQuestion, WrittenSource, refused
from kernelwright.agents.llm.guidance import SECTIONS
from kernelwright.agents.llm.outputs import RootCause
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.proposals import REPAIR
from kernelwright.agents.roles import Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move
from kernelwright.core.source import normalise


class ModelDebugger:
    """Fills the Debugger's seat."""

    def __init__(self, asker: Asker, *, is_merged: bool = False) -> None:
        """``is_merged``: one answer holds the root cause and the repair."""
        self._asker = asker
        self._is_merged = is_merged

    def repair(self, situation: Situation, tried: tuple[str, ...]) -> tuple[Candidate, Move] | None:
        """Return the repaired candidate and the repair; raises UnusableAnswer (see roles.Debugger)."""
        if situation.base is None:
            return None
        told = PromptInput(situation, self._asker.skills)
        if self._is_merged:
            return self._repaired(situation, None, tried)
        cause = self._asker.structured("debugger_diagnose", told, RootCause, _QuoteCheck(told))
        return self._repaired(situation, cause, tried)

    def _repaired(
        self, situation: Situation, cause: RootCause | None, tried: Collection[str]
    ) -> tuple[Candidate, Move]:
        """Ask for the repair; without a cause for that, too."""
        assert situation.base is not None
        failing, problem = situation.base.candidate, situation.problem

        def judge(source: str, text: str) -> Judged[WrittenSource] | None:
            if normalise(source) == failing.program:
                return refused(CallOutcome.UNRESOLVED_ANCHOR, "the failing source came back unchanged")
            if _move(cause, text).key in tried:
                return refused(CallOutcome.INVALID_OUTPUT, "this very repair was tried in this chain")
            return None

        question = CodeQuestion(
            "debugger_repair",
            PromptInput(situation, self._asker.skills, cause=_words(cause) if cause else ""),
            ExpectedAnswer(
                problem.task.source,
                problem.target,
                needs_kernel=has_native_kernel(failing.source, failing.target),
            ),
            judge,
            facts={"is_diagnosed": cause is not None},
        )
        written = self._asker.sources(question)[0]
        move = _move(cause, written.text)
        repaired = Candidate(
            source=written.source,
            target=problem.target,
            parents=(failing.id,),
            plan=failing.plan.then(move),
            role="debugger",
            call=written.call,
        )
        return repaired, move


class _QuoteCheck:
    """Keeps the quotes that occur in the failure as shown; an answer with none is refused."""

    def __init__(self, told: PromptInput) -> None:
        self._shown = " ".join(" ".join(text.split()) for _, text in SECTIONS["failure"](told))

    def __call__(self, cause: RootCause) -> Judged[RootCause]:
        words = [" ".join(quote.split()) for quote in cause.quotes]
        quotes = [quote for quote in words if quote and quote in self._shown]
        if not quotes:
            return refused(CallOutcome.INVALID_OUTPUT, "no quote occurs word for word in `How it fails`")
        return Judged(CallOutcome.OK, cause.model_copy(update={"quotes": quotes}))


def _move(cause: RootCause | None, text: str) -> Move:
    """Return the repair; a cause of its own question comes before the answer's own words."""
    why = cause.root_cause if cause else read_line(text, "cause")
    change = read_line(text, "change") or (cause.minimal_fix if cause else "")
    return Move(skill=REPAIR, why=" ".join(why.split()), text=" ".join(change.split()))


def _words(cause: RootCause) -> str:
    lines = [
        f"Issue: {cause.critical_issue}",
        *(f"Shown by: {quote}" for quote in cause.quotes),
        f"Root cause: {cause.root_cause}",
        *([f"When: {cause.trigger}"] if cause.trigger else []),
        *(f"Must still hold: {invariant}" for invariant in cause.must_hold),
        f"Smallest fix: {cause.minimal_fix}",
    ]
    return "\n".join(lines)
