"""Ask, judge the answer, ask once more with the reason, give up by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from kernelwright.agents.llm.answers import ExpectedAnswer, Judged, read_source, split_kernels
from kernelwright.agents.llm.client import Client, Reply, TextQuestion
from kernelwright.agents.llm.context_check import least_prompt
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.prompts import Prompt, render
from kernelwright.agents.llm.structured import schema_tokens
from kernelwright.agents.llm.tools import OfferedTools, Toolbox
from kernelwright.agents.llm.window import correction_tokens
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.skill import Skill

MAX_ANSWERS = 2
"""Answers to one question before a role gives up; our choice."""
_ASK_AGAIN = (CallOutcome.EMPTY, CallOutcome.TRUNCATED)
"""Outcomes of the client's own that another answer may mend; it has retried the others itself."""

A = TypeVar("A")
V = TypeVar("V")
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class WrittenSource:
    """A usable source of an answer."""

    source: str
    text: str
    """The answer; of one that holds several sources, this one's part."""
    call: str = ""
    """Key of the answer (see Candidate.call)."""


@dataclass(frozen=True)
class CodeQuestion:
    """A prompt that asks for code, and what its answer must be."""

    name: str
    """Of the prompt file."""
    told: PromptInput
    expected: ExpectedAnswer
    judge: "JudgeSource | None" = None
    most: int = 1
    """Kernels that the answer may hold."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What the file asks for besides."""


@dataclass(frozen=True)
class Asker:
    """One role's way to its model."""

    client: Client
    role: str
    skills: dict[str, Skill] = field(default_factory=dict)
    prompt_tokens: int | None = None
    """What the model has room for; None: the windows' own budgets."""
    toolbox: Toolbox | None = None
    """What the model may call before it answers; None: nothing."""
    kernels: int = 1
    """What one answer may hold at most, where a question has room for several."""
    followers: int = 0
    """Requests that the budget must leave for who works on with a structured answer."""
    heard: list[str] = field(default_factory=list)
    """What tools said while the last question was asked."""

    def send_early(self, questions: Iterable[CodeQuestion]) -> None:
        """Send the first requests of questions at once whose prompts do not depend on each other's answers.

        Each is still to be asked by ``sources``, in this order.
        """
        self.client.send_early(self.role, map(self._text_question, questions))

    def sources(self, question: CodeQuestion) -> tuple[WrittenSource, ...]:
        """Return the usable sources, ``most`` of them at most, of one answer; raises UnusableAnswer.

        An answer is usable where one of its sources is; the others are left out.
        """
        most = question.most

        def judged(text: str) -> Judged[tuple[WrittenSource, ...]]:
            parts = split_kernels(text) if most > 1 else (text,)
            read = [_read(part, question.expected, question.judge) for part in parts]
            usable = {one.value.source: one.value for one in read if one.value is not None}
            if not usable:
                return Judged(read[0].outcome, detail=read[0].detail)
            return Judged(CallOutcome.OK, tuple(usable.values())[:most])

        tools, facts = self._prepared(question)
        calls: list[str] = []

        def ask(prompt: Prompt) -> Reply[str]:
            reply = self.client.ask_text(self.role, prompt.system, prompt.user, tools)
            calls[:] = [reply.call]
            return reply

        found = self._usable(question.name, question.told, ask, judged, tools, facts)
        return tuple(replace(one, call=calls[0]) for one in found)

    def structured(
        self, name: str, told: PromptInput, output: type[T], judge: Callable[[T], Judged[V]], **facts: object
    ) -> V:
        """Return what the judge makes of a structured answer; raises UnusableAnswer.

        The prompt leaves room for the schema and for corrections of an answer that does not conform to it.
        """
        tools, room = self._tools(name, told, followers=self.followers)
        reserved = schema_tokens(output) + correction_tokens(self.prompt_tokens) + room

        def ask(prompt: Prompt) -> Reply[T]:
            return self.client.ask(self.role, prompt.system, prompt.user, output, tools, self.followers)

        asked = {**facts, "reserved_tokens": reserved}
        return self._usable(name, told, ask, judge, tools, asked, followers=self.followers)

    def _text_question(self, question: CodeQuestion) -> TextQuestion:
        tools, facts = self._prepared(question)
        prompt = self._prompt(question.name, question.told, tools, facts)
        return TextQuestion(prompt.system, prompt.user, tools)

    def _prepared(self, question: CodeQuestion) -> tuple[OfferedTools | None, dict[str, Any]]:
        """Return the tools of a question, and all that its prompt file asks for."""
        tools, reserved = self._tools(question.name, question.told, followers=0)
        needs_kernel = question.expected.needs_kernel
        known = {"needs_kernel": needs_kernel, "reserved_tokens": reserved, "kernels": question.most}
        return tools, {**question.facts, **known}

    def _tools(self, name: str, told: PromptInput, *, followers: int) -> tuple[OfferedTools | None, int]:
        """Return the tools of a question, and the tokens to keep free for them in its prompt."""
        self.heard.clear()
        if self.toolbox is None:
            return None, 0
        needed = least_prompt(name, told.problem.target)
        offered, room = self.toolbox.offer(
            told.situation, name, self.prompt_tokens, needed=needed, followers=followers
        )
        return (None if offered is None else replace(offered, heard=self.heard)), room

    def _usable(
        self,
        name: str,
        told: PromptInput,
        ask: Callable[[Prompt], Reply[A]],
        judge: Callable[[A], Judged[V]],
        tools: OfferedTools | None,
        facts: Mapping[str, Any],
        followers: int = 0,
    ) -> V:
        problem = ""
        for _ in range(MAX_ANSWERS):
            if followers and not self.client.can_pay(1 + followers):
                problem = problem or "the budget has no request for those who work on with the answer"
                break
            reply = ask(self._prompt(name, told, tools, facts, problem))
            if reply.outcome is not CallOutcome.OK or reply.value is None:
                problem = _named(reply.outcome, reply.detail)
                if reply.outcome in _ASK_AGAIN:
                    continue
                break
            judged = judge(reply.value)
            if judged.value is not None:
                return judged.value
            self.client.note(self.role, judged.outcome, judged.detail)
            problem = _named(judged.outcome, judged.detail)
        raise UnusableAnswer(problem)

    def _prompt(
        self,
        name: str,
        told: PromptInput,
        tools: OfferedTools | None,
        facts: Mapping[str, Any],
        problem: str = "",
    ) -> Prompt:
        asked = replace(told, refused=problem, reads_skills=tools is not None and tools.has_skills)
        return render(name, asked, **{**facts, "prompt_tokens": self.prompt_tokens})


JudgeSource = Callable[[str, str], Judged[WrittenSource] | None]
"""Looks at (source, the words of its answer); returns the refusal, None when there is nothing against it."""


def _read(text: str, expected: ExpectedAnswer, judge: JudgeSource | None) -> Judged[WrittenSource]:
    read = read_source(text, expected)
    if read.value is None:
        return Judged(read.outcome, detail=read.detail)
    problem = judge(read.value, text) if judge is not None else None
    return problem or Judged(CallOutcome.OK, WrittenSource(read.value, text))


def refused(outcome: CallOutcome, detail: str) -> Judged[V]:
    """Return an answer that cannot be used."""
    return Judged(outcome, detail=detail)


def _named(outcome: CallOutcome, detail: str) -> str:
    return f"{outcome.value}: {detail}" if detail else outcome.value
