"""A stand-in for a language model: answers by script. For tests; no command of the project uses it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from kernelwright.agents.llm.answer_counts import Account
from kernelwright.agents.llm.client import Reply, TextQuestion
from kernelwright.agents.llm.tools import OfferedTools
from kernelwright.core.model_call import CallOutcome

V = TypeVar("V")
T = TypeVar("T", bound=BaseModel)

Scripted = str | Mapping[str, object] | CallOutcome
"""A text, the fields of a structured answer, or an outcome without an answer."""
Answer = Scripted | Callable[[str, str], Scripted]
"""A function is given (system, user)."""


class ScriptedRequest(NamedTuple):
    """One question as it was sent."""

    role: str
    system: str
    user: str


class ScriptedNote(NamedTuple):
    """What a role made of its last answer."""

    role: str
    outcome: CallOutcome
    detail: str


class ScriptedClient:
    """Fills agents.llm.client.Client: each role's answers in order, the last one again when they run out."""

    def __init__(self, answers: Mapping[str, Sequence[Answer]]) -> None:
        self._answers = {role: list(script) for role, script in answers.items()}
        self.asked: list[ScriptedRequest] = []
        self.notes: list[ScriptedNote] = []
        self.early: list[TextQuestion] = []
        self._account = Account()

    @property
    def account(self) -> Account:
        """How the answers ended so far."""
        return self._account

    def ask_text(self, role: str, system: str, user: str, tools: OfferedTools | None = None) -> Reply[str]:
        """Return the role's next answer; white space is EMPTY. Asks no tool."""
        answer = self._next(role, system, user)
        if isinstance(answer, CallOutcome):
            return self._reply(role, Reply(answer, None, "", "scripted"))
        text = str(answer)
        if not text.strip():
            return self._reply(role, Reply(CallOutcome.EMPTY, None, text, "scripted"))
        return self._reply(role, Reply(CallOutcome.OK, text, text, call=f"call {len(self.asked)}"))

    def send_early(self, role: str, questions: Iterable[TextQuestion]) -> None:
        """Send nothing, but remember them: each is answered when it is asked."""
        self.early += questions

    def ask(
        self,
        role: str,
        system: str,
        user: str,
        output: type[T],
        tools: OfferedTools | None = None,
        followers: int = 0,
    ) -> Reply[T]:
        """Return the role's next answer, validated; one that fails is INVALID_OUTPUT."""
        answer = self._next(role, system, user)
        if isinstance(answer, CallOutcome):
            return self._reply(role, Reply(answer, None, "", "scripted"))
        try:
            is_text = isinstance(answer, str)
            value = output.model_validate_json(str(answer)) if is_text else output.model_validate(answer)
        except ValidationError as error:
            detail = f"{error.error_count()} errors"
            return self._reply(role, Reply(CallOutcome.INVALID_OUTPUT, None, str(answer), detail))
        return self._reply(role, Reply(CallOutcome.OK, value, str(answer)))

    def can_pay(self, requests: int) -> bool:
        """Say yes: scripts cost nothing."""
        return True

    def note(self, role: str, outcome: CallOutcome, detail: str) -> None:
        """Remember it."""
        self.notes.append(ScriptedNote(role, outcome, detail))
        self._account.note(role, outcome)

    def _next(self, role: str, system: str, user: str) -> Scripted:
        self.asked.append(ScriptedRequest(role, system, user))
        script = self._answers[role]
        answer = script.pop(0) if len(script) > 1 else script[0]
        return answer(system, user) if callable(answer) else answer

    def _reply(self, role: str, reply: Reply[V]) -> Reply[V]:
        self._account.count(role, reply.outcome)
        return reply
