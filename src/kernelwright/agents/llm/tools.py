"""What a model may ask this machine before it answers: typed tools, and how much of them a question gets.

A tool is an ordinary call of the library behind frozen arguments; ``api/model_tools.py`` has those of a run.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kernelwright.agents.llm.structured import complaints
from kernelwright.agents.llm.window import WINDOWS, cut_to, estimate_tokens
from kernelwright.agents.roles import Situation
from kernelwright.core.errors import KernelwrightError

RESULT_TOKENS = 4_000
"""Of one result at most, by ``estimate_tokens``; our choice."""
LEAST_RESULT_TOKENS = 300
"""Below so many tokens for a result no tool is offered; our choice."""
CONTEXT_SHARE = 4
"""Tools and what they say take one part in so many of a small context at most; our choice."""
READ_SKILL = "read_skill"
"""Name of the tool that shows a skill in full."""
ROLES = ("generator", "planner", "coder", "debugger")
"""The seats that plan or write."""


@dataclass(frozen=True)
class Tool:
    """One thing that a model may ask for."""

    name: str
    says: str
    """What it does, for the model."""
    arguments: type[Any]
    """A frozen dataclass; its JSON schema is what the model sees."""
    carry_out: Callable[[Situation, Any], str]
    """Returns what is found. KernelwrightError and a wrong argument become words for the model."""
    needs_base: bool = False
    """Offered only where there is a base."""
    is_of_draft: bool = False
    """Tells of what the model wrote alone, so it is offered where the recipe has nothing but timings, too."""
    needs_long_term: bool = False
    """Tells what experts know, which an ablation leaves out."""

    def fits(self, situation: Situation) -> bool:
        """Tell whether it may be offered."""
        return (
            (situation.base is not None or not self.needs_base)
            and (self.is_of_draft or not situation.timings_only)
            and (situation.has_long_term or not self.needs_long_term)
        )

    @cached_property
    def _reader(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.arguments)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return self._reader.json_schema()

    def use(self, situation: Situation, arguments: str) -> str:
        """Return what the tool says to arguments as the model wrote them, JSON or not."""
        try:
            asked = self._reader.validate_json(arguments or "{}")
        except ValidationError as error:
            said = complaints(error.errors(include_url=False, include_input=False))
            return f"The arguments do not conform to the schema: {said}"
        try:
            return self.carry_out(situation, asked)
        except KernelwrightError as error:
            return f"That cannot be done: {error}"


@dataclass(frozen=True)
class OfferedTools:
    """The tools of one question."""

    tools: tuple[Tool, ...]
    situation: Situation
    most_calls: int
    result_tokens: int = RESULT_TOKENS
    total_tokens: int | None = None
    """Of all calls and results together; None: only each result has a limit."""
    followers: int = 0
    """Requests to models that the budget must leave for who works on with the answer."""
    heard: list[str] = field(default_factory=list)
    """What the tools said, in order; filled while the question is asked."""

    @property
    def base(self) -> str:
        """What the tools are about, for the tape."""
        node = self.situation.base
        return self.situation.problem.task.id if node is None else node.candidate.id

    @property
    def has_skills(self) -> bool:
        """Whether the full text of a skill may be asked for."""
        return any(tool.name == READ_SKILL for tool in self.tools)

    @property
    def note(self) -> str:
        """What the system prompt says of them."""
        calls = "one call" if self.most_calls == 1 else f"{self.most_calls} calls"
        return (
            f"# Tools\n\nBefore you answer you may call the tools of this request, {calls} in all. This "
            "machine carries them out. A call costs a request of the run's budget: ask only what can change "
            "your answer. Then answer as described above."
        )

    def use(self, name: str, arguments: str) -> str:
        """Return what a tool says, cut to what a result may take."""
        tool = next((one for one in self.tools if one.name == name), None)
        if tool is None:
            return f"There is no tool {name!r}; there are: {', '.join(one.name for one in self.tools)}"
        return cut_to(tool.use(self.situation, arguments), self.result_tokens)


@dataclass(frozen=True)
class Toolbox:
    """The tools of one seat."""

    tools: tuple[Tool, ...]
    most_calls: int
    """For one answer."""

    def offer(
        self, situation: Situation, prompt: str, prompt_tokens: int | None, needed: int, followers: int
    ) -> tuple[OfferedTools | None, int]:
        """Return what is offered to one question, and the tokens to keep free for it in its prompt.

        Args:
            situation: decides what a tool is about.
            prompt: name of the prompt file.
            prompt_tokens: what the model has room for; None: there is no limit but the windows' own.
            needed: tokens that the prompt cannot do without.
            followers: as in ``OfferedTools``.
        """
        fitting = tuple(tool for tool in self.tools if tool.fits(situation))
        if not fitting or self.most_calls < 1:
            return None, 0
        everything = OfferedTools(fitting, situation, self.most_calls, followers=followers)
        if prompt_tokens is None:
            return everything, 0
        schemas = definition_tokens(everything)
        total = min(prompt_tokens // CONTEXT_SHARE - schemas, self.most_calls * RESULT_TOKENS)
        each = total // self.most_calls
        if each < LEAST_RESULT_TOKENS or prompt_tokens - schemas - total < needed:
            return None, 0
        beyond = max(0, prompt_tokens - WINDOWS[prompt].budget_tokens)
        offered = OfferedTools(fitting, situation, self.most_calls, each, total, followers)
        return offered, max(0, schemas + total - beyond)


def definition_tokens(offered: OfferedTools) -> int:
    """Return what the tools' definitions and the note about them add to a request, by ``estimate_tokens``."""
    schemas = [json.dumps([tool.name, tool.says, tool.schema]) for tool in offered.tools]
    return estimate_tokens("".join([offered.note, *schemas]))
