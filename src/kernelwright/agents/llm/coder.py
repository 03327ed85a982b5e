"""The model Coder: carries out plans with an account of every step, or improves a kernel on its own."""

from collections.abc import Sequence
from functools import partial

from kernelwright.agents.llm.answers import ExpectedAnswer, Judged, read_account, read_line
from kernelwright.agents.llm.asking import Asker, CodeQuestion, JudgeSource, WrittenSource, refused
from kernelwright.agents.llm.formatting import steps_of
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.several import calls_for, gather
from kernelwright.agents.llm.span_markers import changes_outside, has_marker
from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move, Plan
from kernelwright.core.source import normalise

REWRITE = "rewrite"
"""Skill of a change that no plan of another role led to."""
_ALGEBRA = ("rewrite:", "fusion:")
"""Lowerings whose result may be library calls alone."""


class ModelCoder:
    """Fills the Coder's seat."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def expect(self, situation: Situation, coming: Sequence[Plan]) -> None:
        """Send the first requests for several kernels at once, where the settings allow it."""
        self._asker.send_early(self._translating(situation, plan) for plan in coming if plan.moves)

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        """Return the base with the move carried out.

        Raises:
            UnusableAnswer: two answers were refused; ``unresolved_anchor`` where a step has no account, a
                marker is left, or text outside the marked spans changed without being accounted for.
        """
        if situation.base is None:
            raise LoweringError("there is no base to carry the move out on")
        plan = situation.base.candidate.plan.then(choice.move)
        if choice.source is not None:
            return _candidate(situation, choice.source, plan, choice.call)
        steps, anchored = steps_of(choice.move), choice.anchored
        question = CodeQuestion(
            "coder_write",
            PromptInput(situation, self._asker.skills, plan=Plan(moves=(choice.move,)), anchored=anchored),
            self._expected(situation, [choice.move]),
            check_source(situation.base.candidate.source, len(steps), anchored),
            facts={"n_steps": len(steps), "is_anchored": anchored is not None},
        )
        written = self._asker.sources(question)[0]
        return _candidate(situation, written.source, plan, written.call)

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        """Return a kernel that carries out the whole plan; each move is one step of the account."""
        if not plan.moves:
            raise LoweringError("the plan has no moves")
        written = self._asker.sources(self._translating(situation, plan))[0]
        return _candidate(situation, written.source, plan, written.call)

    def _translating(self, situation: Situation, plan: Plan) -> CodeQuestion:
        base = situation.base
        return CodeQuestion(
            "coder_translate",
            PromptInput(situation, self._asker.skills, plan=plan),
            self._expected(situation, plan.moves),
            check_source(base.candidate.source if base else "", len(plan.moves), None),
            facts={"n_steps": len(plan.moves), "is_anchored": False},
        )

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return up to ``count`` usable answers to one prompt, of as few calls as hold them (see gather).

        Source: CUDA-LLM's FSR (N candidates from one prompt). That later answers are told their number, so
        that they differ at any temperature, is ours.
        """
        parts = calls_for(count, self._asker.kernels)
        self._asker.send_early(self._rewriting(situation, count, *part) for part in parts)
        return gather(count, self._asker.kernels, partial(self._rewritten, situation, count))

    def _rewriting(self, situation: Situation, count: int, number: int, most: int) -> CodeQuestion:
        base = situation.base
        return CodeQuestion(
            "coder_rewrite",
            PromptInput(situation, self._asker.skills),
            ExpectedAnswer(situation.problem.task.source, situation.problem.target),
            check_source(base.candidate.source if base else ""),
            most,
            facts={
                "number": number,
                "count": count,
                "has_base": base is not None,
                "is_failing": base is not None and not base.evaluation.is_verified,
            },
        )

    def _rewritten(
        self, situation: Situation, count: int, number: int, most: int, earlier: tuple[str, ...]
    ) -> tuple[Candidate, ...]:
        written = self._asker.sources(self._rewriting(situation, count, number, most))
        before = situation.base.candidate.plan if situation.base else Plan()
        return tuple(
            _candidate(situation, one.source, before.then(_change(one.text, n, count)), one.call)
            for n, one in enumerate(written, start=number)
        )

    def _expected(self, situation: Situation, moves: Sequence[Move]) -> ExpectedAnswer:
        needs_kernel = any(not self._is_algebra(move) for move in moves)
        return ExpectedAnswer(situation.problem.task.source, situation.problem.target, needs_kernel)

    def _is_algebra(self, move: Move) -> bool:
        skill = self._asker.skills.get(move.skill)
        return skill is not None and (skill.lowering or "").startswith(_ALGEBRA)


def check_source(base_source: str, n_steps: int = 0, anchored: str | None = None) -> JudgeSource:
    """Return the check of an answer against its base and its plan; see ModelCoder.write."""

    def judge(source: str, text: str) -> Judged[WrittenSource] | None:
        if normalise(source) == normalise(base_source):
            return refused(CallOutcome.UNRESOLVED_ANCHOR, "the base came back unchanged")
        if has_marker(source):
            return refused(CallOutcome.UNRESOLVED_ANCHOR, "a marker of a span is left in the source")
        account = read_account(text, source)
        missing = [str(n) for n in range(1, n_steps + 1) if str(n) not in account]
        if missing:
            detail = f"no account that names a place in the source for step {', '.join(missing)}"
            return refused(CallOutcome.UNRESOLVED_ANCHOR, detail)
        changed = changes_outside(anchored, source) if anchored is not None else ()
        if changed and "outside" not in account:
            detail = f"text outside the marked spans changed without an account, after {changed[0]!r}"
            return refused(CallOutcome.UNRESOLVED_ANCHOR, detail)
        return None

    return judge


def _change(text: str, number: int, count: int) -> Move:
    return Move(skill=REWRITE, text=read_line(text, "change") or f"answer {number} of {count}")


def _candidate(situation: Situation, source: str, plan: Plan, call: str) -> Candidate:
    return Candidate(
        source=source,
        target=situation.problem.target,
        parents=() if situation.base is None else (situation.base.candidate.id,),
        plan=plan,
        role="coder",
        call=call,
    )
