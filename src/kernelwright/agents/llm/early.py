"""Requests before their turn: several questions that do not depend on each other's answers, at once.

Only the first request of each is sent. Its answer goes on the tape, where it is found once the question is
asked in its turn: tools, corrections, retries and verdicts come in the same order as without.
"""

from collections.abc import Sequence

from pydantic_ai import models as sdk_models
from pydantic_ai.messages import ModelResponse

from kernelwright.agents.llm.client import TextQuestion
from kernelwright.agents.llm.recorded import Line, RecordedModel, Send
from kernelwright.core.budget import Meter
from kernelwright.core.model_call import Question


class AwaitsItsTurn(Exception):
    """The first request of a question is on the tape; the question itself is still to be asked."""


class EarlyModel(RecordedModel):
    """Sends the first request of one question, and raises AwaitsItsTurn."""

    def __init__(self, wrapped: sdk_models.Model, role: str, line: Line, under_way: set[str]) -> None:
        """``under_way``: keys of what is sent already, shared by models that send at once."""
        super().__init__(wrapped, role, line)
        self._under_way = under_way

    async def _settle(self, question: Question, request: str, send: Send) -> ModelResponse:
        """Send the request unless it is on the tape or under way; raises AwaitsItsTurn or BudgetUsedUp."""
        line, key = self._line, self._key(request)
        if key not in self._under_way and line.tape.find(key, question) is None:
            self._under_way.add(key)
            line.meter.require()
            call, line.early[key] = await send(key)
            self._charge(call)
        raise AwaitsItsTurn


def affordable(questions: Sequence[TextQuestion], meter: Meter) -> Sequence[TextQuestion]:
    """Return those of the questions for which the budget has all requests that they may lead to.

    What a question is offered depends on the requests that are left, so fewer would change the questions.
    """
    granted = meter.budget.model_calls
    if granted is None:
        return questions
    left = granted - meter.spent.model_calls
    for n, question in enumerate(questions):
        tools = question.tools
        left -= 1 if tools is None else 1 + tools.most_calls
        if left < (0 if tools is None else 2 + tools.followers):
            return questions[:n]
    return questions
