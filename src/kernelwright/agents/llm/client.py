"""What roles know of a language model: ask, and be told by name how it went."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel

from kernelwright.agents.llm.answer_counts import Account
from kernelwright.agents.llm.tools import OfferedTools
from kernelwright.core.model_call import CallOutcome

V = TypeVar("V")
T = TypeVar("T", bound=BaseModel)

INSTALL = "a language-model team needs its libraries: pip install 'kernelwright[llm]'"


@dataclass(frozen=True)
class Reply(Generic[V]):
    """The answer to one question, whatever it cost to get."""

    outcome: CallOutcome
    """Of the question; a role that makes something else of the answer says so by ``Client.note``."""
    value: V | None
    """None unless the outcome is OK."""
    text: str
    """The model's raw text, also of an unusable answer; empty when there was none."""
    detail: str = ""
    """One line: what was wrong."""
    call: str = ""
    """Key of the recorded call that holds the text; empty where nothing is recorded."""


class TextQuestion(NamedTuple):
    """What ``ask_text`` is given."""

    system: str
    user: str
    tools: OfferedTools | None = None


class Client(Protocol):
    """One run's line to its models.

    Both ``ask`` methods raise BudgetUsedUp when the next request may not begin, ModelUnavailable when the
    API refuses or fails for good, and UserError when a recording is replayed that lacks the answer.
    Everything else that a model or its API does is a named outcome.
    """

    @property
    def account(self) -> Account:
        """How the answers of this run ended so far."""
        ...

    def ask_text(self, role: str, system: str, user: str, tools: OfferedTools | None = None) -> Reply[str]:
        """Return the model's text; before it answers it may call the tools."""
        ...

    def send_early(self, role: str, questions: Iterable[TextQuestion]) -> None:
        """Send the first requests of questions at once that do not depend on each other's answers.

        Each is still to be asked by ``ask_text``, in this order. Where only one request may be under way
        (``ModelSettings.concurrency``), or the budget might not last for all, fewer are sent, or none.
        """
        ...

    def ask(
        self,
        role: str,
        system: str,
        user: str,
        output: type[T],
        tools: OfferedTools | None = None,
        followers: int = 0,
    ) -> Reply[T]:
        """Return a validated ``output``; the model is told of a validation error at most twice (ours).

        It is not told where that would take a request of the budget that the ``followers`` need, those who
        work on with the answer.
        """
        ...

    def can_pay(self, requests: int) -> bool:
        """Tell whether the budget has so many requests left."""
        ...

    def note(self, role: str, outcome: CallOutcome, detail: str) -> None:
        """Put what the role made of its last answer, e.g. NO_CODE, in that answer's place in the account."""
        ...
