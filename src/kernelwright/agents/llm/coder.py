"""The model Coder: carries out plans with an account of every step, or improves a kernel on its own."""

from collections.abc import Sequence

from kernelwright.agents.llm.answers import ExpectedAnswer, Judged, read_account, read_line
from kernelwright.agents.llm.asking import Asker, JudgeSource, refused
from kernelwright.agents.llm.formatting import steps_of
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.span_markers import changes_outside, has_marker
from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import BudgetUsedUp, LoweringError, ModelUnavailable, UnusableAnswer
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

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        """Return the base with the move carried out.

        Raises:
            UnusableAnswer: two answers were refused; ``unresolved_anchor`` where a step has no account, a
                marker is left, or text outside the marked spans changed without being accounted for.
        """
        if situation.base is None:
            raise LoweringError("there is no base to carry the move out on")
        base, steps = situation.base.candidate, steps_of(choice.move)
        if choice.source is not None:
            return _candidate(situation, choice.source, base.plan.then(choice.move))
        told = PromptInput(
            situation, self._asker.skills, plan=Plan(moves=(choice.move,)), anchored=choice.anchored
        )
        source, _ = self._asker.source(
            "coder_write",
            told,
            self._expected(situation, [choice.move]),
            check_source(base.source, len(steps), choice.anchored),
            n_steps=len(steps),
            is_anchored=choice.anchored is not None,
        )
        return _candidate(situation, source, base.plan.then(choice.move))

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        """Return a kernel that carries out the whole plan; each move is one step of the account."""
        if not plan.moves:
            raise LoweringError("the plan has no moves")
        base = situation.base
        source, _ = self._asker.source(
            "coder_translate",
            PromptInput(situation, self._asker.skills, plan=plan),
            self._expected(situation, plan.moves),
            check_source(base.candidate.source if base else "", len(plan.moves), None),
            n_steps=len(plan.moves),
            is_anchored=False,
        )
        return _candidate(situation, source, plan)

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return the usable answers of ``count`` calls to one prompt; raises UnusableAnswer when none is.

        Source: CUDA-LLM's FSR (N candidates from one prompt). That later answers are told their number, so
        that they differ at any temperature, is ours.
        """
        found: dict[str, Candidate] = {}
        problem = ""
        for n in range(count):
            try:
                candidate = self._rewritten(situation, n + 1, count)
            except UnusableAnswer as error:
                problem = str(error)
                continue
            except (BudgetUsedUp, ModelUnavailable):
                if not found:
                    raise
                break  # what was written is worth judging
            found.setdefault(candidate.id, candidate)
        if count and not found:
            raise UnusableAnswer(problem)
        return tuple(found.values())

    def _rewritten(self, situation: Situation, number: int, count: int) -> Candidate:
        base = situation.base
        source, text = self._asker.source(
            "coder_rewrite",
            PromptInput(situation, self._asker.skills),
            ExpectedAnswer(situation.problem.task.source, situation.problem.target),
            check_source(base.candidate.source if base else ""),
            number=number,
            count=count,
            has_base=base is not None,
            is_failing=base is not None and not base.evaluation.is_verified,
        )
        move = Move(skill=REWRITE, text=read_line(text, "change") or f"answer {number} of {count}")
        plan = base.candidate.plan.then(move) if base else Plan(moves=(move,))
        return _candidate(situation, source, plan)

    def _expected(self, situation: Situation, moves: Sequence[Move]) -> ExpectedAnswer:
        needs_kernel = any(not self._is_algebra(move) for move in moves)
        return ExpectedAnswer(situation.problem.task.source, situation.problem.target, needs_kernel)

    def _is_algebra(self, move: Move) -> bool:
        skill = self._asker.skills.get(move.skill)
        return skill is not None and (skill.lowering or "").startswith(_ALGEBRA)


def check_source(base_source: str, n_steps: int = 0, anchored: str | None = None) -> JudgeSource:
    """Return the check of an answer against its base and its plan; see ModelCoder.write."""

    def judge(source: str, text: str) -> Judged[tuple[str, str]] | None:
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


def _candidate(situation: Situation, source: str, plan: Plan) -> Candidate:
    parents = () if situation.base is None else (situation.base.candidate.id,)
    return Candidate(source=source, target=situation.problem.target, parents=parents, plan=plan, role="coder")
