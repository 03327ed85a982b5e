"""The client over pydantic-ai: one agent for each role and kind of answer."""

import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, NativeOutput, TextOutput, ToolOutput
from pydantic_ai import exceptions as sdk
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.profiles import ModelProfile

from kernelwright.agents.llm.answer_counts import Account
from kernelwright.agents.llm.client import Reply, TextQuestion
from kernelwright.agents.llm.early import AwaitsItsTurn, EarlyModel, affordable
from kernelwright.agents.llm.keys import Keys
from kernelwright.agents.llm.models import make_model
from kernelwright.agents.llm.prices import require_prices, with_prices
from kernelwright.agents.llm.recorded import TEXT, CallFailed, Line, RecordedModel, sdk_settings
from kernelwright.agents.llm.structured import NotAnswered, ask_for_json, parse
from kernelwright.agents.llm.tape import ReplayOnly, Tape
from kernelwright.agents.llm.tool_turns import has_calls_for_tools
from kernelwright.agents.llm.tools import OfferedTools
from kernelwright.core.budget import Meter
from kernelwright.core.errors import BudgetUsedUp, ModelUnavailable, UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings

OUTPUT_RETRIES = 2
"""Times that a model is told what is wrong with its JSON; our choice."""
MAX_FAILURES_IN_A_ROW = 5
"""Questions that the API itself may fail one after the other; our choice."""
FATAL = (CallOutcome.UNAUTHORISED, CallOutcome.UNKNOWN_MODEL)

T = TypeVar("T", bound=BaseModel)
V = TypeVar("V")


class ModelClient:
    """See ``client.Client``; made by ``connect.make_client``."""

    def __init__(
        self,
        settings: ModelSettings,
        meter: Meter,
        tape: Tape,
        *,
        seed: int = 0,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        keys: Keys | None = None,
    ) -> None:
        self._is_replay = isinstance(tape, ReplayOnly)
        if not self._is_replay:
            require_prices(settings, meter.budget)
        keys = keys or Keys()
        self._settings = with_prices(settings)
        self._line = Line(self._settings, meter, tape, keys, random.Random(seed), sleep)
        self._models: dict[str, RecordedModel] = {}
        self._agents: dict[tuple[str, type], Agent[object, Any]] = {}
        self._account = Account()
        self._failures_in_a_row = 0
        for role in ("", *settings.roles):
            self._model(role)

    @property
    def account(self) -> Account:
        """How the answers ended so far."""
        return self._account

    def ask_text(self, role: str, system: str, user: str, tools: OfferedTools | None = None) -> Reply[str]:
        """Return the model's text."""
        return self._ask(role, system, user, self._agent(role, str), TEXT, tools)

    def send_early(self, role: str, questions: Iterable[TextQuestion]) -> None:
        """Send the first requests of questions at once, as far as settings and budget allow."""
        if self._is_replay or self._settings.concurrency < 2:
            return
        sent = affordable(list(questions), self._line.meter)
        if len(sent) < 2:
            return
        under_way: set[str] = set()
        asks = [partial(self._sent_early, role, question, under_way) for question in sent]
        with start_blocking_portal() as portal:
            portal.call(_at_once, asks, self._settings.concurrency)

    async def _sent_early(self, role: str, question: TextQuestion, under_way: set[str]) -> None:
        """Send one; what goes wrong with it goes wrong, or is mended, when the question is asked."""
        model = EarlyModel(self._model(role).wrapped, role, self._line, under_way)
        model.answer, model.tools = TEXT, question.tools
        system = self._with_tools(question.system, question.tools)
        agent = self._new_agent(model, role, str)
        with contextlib.suppress(AwaitsItsTurn, BudgetUsedUp, sdk.AgentRunError, sdk.UserError):
            await agent.run(_unicode(question.user), instructions=_unicode(system))

    def ask(
        self,
        role: str,
        system: str,
        user: str,
        output: type[T],
        tools: OfferedTools | None = None,
        followers: int = 0,
    ) -> Reply[T]:
        """Return a validated ``output``."""
        mode = self._settings.output_mode_of(role)
        if mode != "tool":  # a server that only holds a model to a schema does not show it
            system = ask_for_json(system, output)
        answer = f"{mode} JSON ({', '.join(output.model_fields)})"
        return self._ask(role, system, user, self._agent(role, output), answer, tools, followers)

    def can_pay(self, requests: int) -> bool:
        """Tell whether the budget has so many requests left."""
        return self._line.meter.has_calls(requests)

    def note(self, role: str, outcome: CallOutcome, detail: str) -> None:
        """Replace the outcome of the role's last answer, in the account and on the tape."""
        self._account.note(role, outcome)
        self._model(role).judge(outcome, detail)

    def _model(self, role: str) -> RecordedModel:
        if role not in self._models:
            made = _nobody() if self._is_replay else make_model(self._settings, role, keys=self._line.keys)
            self._models[role] = RecordedModel(made, role, self._line)
        return self._models[role]

    def _agent(self, role: str, output: type[V]) -> Agent[object, V]:
        if (role, output) not in self._agents:
            self._agents[role, output] = self._new_agent(self._model(role), role, output)
        return self._agents[role, output]

    def _new_agent(self, model: RecordedModel, role: str, output: type[V]) -> Agent[object, V]:
        agent: Agent[object, V] = Agent(
            model,
            output_type=self._output_type(role, output),
            name=role,
            model_settings=sdk_settings(self._settings, role, model),
            retries={"output": OUTPUT_RETRIES},
        )
        agent.instrument = self._settings.instrument
        return agent

    def _output_type(self, role: str, output: type[V]) -> Any:
        if output is str:
            return str
        mode = self._settings.output_mode_of(role)
        if mode == "tool":
            return ToolOutput(output)
        if mode == "native":
            return NativeOutput(output)
        return TextOutput(_reader(output))

    def _ask(
        self,
        role: str,
        system: str,
        user: str,
        agent: Agent[object, V],
        answer: str,
        tools: OfferedTools | None,
        followers: int = 0,
    ) -> Reply[V]:
        model = self._model(role)
        model.answer, model.tools, model.followers = answer, tools, followers
        system = self._with_tools(system, tools)
        try:
            value = _run(agent, _unicode(system), _unicode(user))
        except CallFailed as failed:
            return self._book(role, Reply(failed.outcome, None, failed.text, failed.detail))
        except sdk.UnexpectedModelBehavior as error:
            detail = self._line.keys.scrub(" ".join(str(error.__cause__ or error).split()))
            model.judge(CallOutcome.INVALID_OUTPUT, detail)
            return self._book(role, Reply(CallOutcome.INVALID_OUTPUT, None, model.last_text, detail))
        except sdk.UserError as error:
            said = self._line.keys.scrub(" ".join(str(error).split()))
            raise UserError(f"{self._settings.for_role(role).place} cannot be asked so: {said}") from None
        return self._book(role, Reply(CallOutcome.OK, value, model.last_text, call=model.last_key))

    def _with_tools(self, system: str, tools: OfferedTools | None) -> str:
        """Return what the model is told, with the tools where the budget has requests for them."""
        if tools is None or not has_calls_for_tools(self._line.meter, tools):
            return system
        return f"{system.rstrip()}\n\n{tools.note}"

    def _book(self, role: str, reply: Reply[V]) -> Reply[V]:
        """Count the reply; raise ModelUnavailable when the API has failed for good."""
        self._account.count(role, reply.outcome)
        self._failures_in_a_row = self._failures_in_a_row + 1 if reply.outcome.is_api_failure else 0
        said = f"{reply.outcome.value.replace('_', ' ')}: {reply.detail}"
        place = self._settings.for_role(role).place
        if reply.outcome in FATAL:
            raise ModelUnavailable(f"{place} is not available ({said})")
        if self._failures_in_a_row > MAX_FAILURES_IN_A_ROW:
            raise ModelUnavailable(
                f"{place} failed {self._failures_in_a_row} times in a row, at last ({said})"
            )
        return reply


def _run(agent: Agent[object, V], system: str, user: str) -> V:
    """Run the agent in an event loop of its own, so that it also works where one is running already."""

    async def ask() -> V:
        result = await agent.run(user, instructions=system)
        return result.output

    with start_blocking_portal() as portal:
        return portal.call(ask)


async def _at_once(asks: Sequence[Callable[[], Awaitable[None]]], most: int) -> None:
    """Carry out all of them, ``most`` at a time, then raise what the first that failed has raised."""
    limiter, errors = anyio.CapacityLimiter(most), list[Exception]()

    async def one(ask: Callable[[], Awaitable[None]]) -> None:
        async with limiter:
            try:
                await ask()
            except Exception as error:
                errors.append(error)

    async with anyio.create_task_group() as group:
        for ask in asks:
            group.start_soon(one, ask)
    if errors:
        raise errors[0]


def _reader(output: type[V]) -> Callable[[str], V]:
    """Return a function for pydantic-ai that reads an ``output`` from text or has the model try again."""

    def read(text: str) -> Any:
        try:
            return parse(text, output)  # type: ignore[type-var]
        except NotAnswered as problem:
            raise ModelRetry(str(problem)) from problem

    return read


def _nobody() -> FunctionModel:
    """Return a model that is never asked: a replayed run reads everything from its tape."""

    def refuse(messages: object, info: object) -> Any:
        raise AssertionError("a replayed run sends nothing")

    profile = ModelProfile(supports_tools=True, supports_json_schema_output=True)
    return FunctionModel(refuse, profile=profile)


def _unicode(text: str) -> str:
    """Return the text without lone surrogates, which no wire carries."""
    return text.encode("utf-8", "replace").decode()
