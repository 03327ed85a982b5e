"""A model whose every request is first looked up on the tape, then sent, counted and recorded."""

import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import anyio
from pydantic_ai import models as sdk_models
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import CacheConfig
from pydantic_ai.settings import ModelSettings as SdkSettings
from pydantic_core import ErrorDetails

from kernelwright.agents.llm.corrections import bounded
from kernelwright.agents.llm.keys import Keys
from kernelwright.agents.llm.models import connect
from kernelwright.agents.llm.outcomes import NOT_THE_PROTOCOL, failure_of, outcome_of, raw_text, whole
from kernelwright.agents.llm.structured import complaints
from kernelwright.agents.llm.tape import Tape
from kernelwright.agents.llm.tool_turns import LEAST_S, NO_TIME, answer_with_tools, arguments_of, timed_use
from kernelwright.agents.llm.tools import OfferedTools
from kernelwright.agents.llm.transport import RequestFailure, RequestPatience
from kernelwright.agents.llm.window import correction_tokens
from kernelwright.core.budget import Meter, Spent
from kernelwright.core.frozen import content_hash
from kernelwright.core.model_call import CallOutcome, ModelCall, Question
from kernelwright.core.models import ModelSettings
from kernelwright.core.spans import span

BYTES_PER_TOKEN = 3
"""For servers that do not say what they counted; on the high side for English and code; our choice."""
TEXT = "text"
PREFIX_ALONE: CacheConfig = {"messages": False}
"""Servers that cache what they are told to keep the system part and the tools, which come again; the question
does not."""
SAME_WHATEVER_THE_TIME = ("part_kind", "content", "tool_name", "args")
"""What of a message's part belongs to the request; times and identifiers do not."""


Sent: TypeAlias = tuple[ModelCall, RequestFailure]
"""A call as it was recorded, and how it failed, if it did."""
Send: TypeAlias = Callable[[str], Awaitable[Sent]]
"""Sends one request, once, under this key, and records it."""


class CallFailed(Exception):
    """A request that, after all tries, gave no answer."""

    def __init__(self, outcome: CallOutcome, detail: str, text: str) -> None:
        super().__init__(f"{outcome.value}: {detail}")
        self.outcome = outcome
        self.detail = detail
        self.text = text


@dataclass
class Line:
    """What all models of one run share."""

    settings: ModelSettings
    meter: Meter
    tape: Tape
    keys: Keys
    rng: random.Random
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    asked: Counter[str] = field(default_factory=Counter)
    """By hash of the request: how often it came up in this run."""
    early: dict[str, RequestFailure] = field(default_factory=dict)
    """By key, how calls ended that were sent before their turn, which is still to come (``early.py``). They
    are paid for, so they are used whatever is left of the budget."""


class RecordedModel(WrapperModel):
    """One role's model. Raises CallFailed for whatever is no answer, BudgetUsedUp before it may not begin."""

    def __init__(self, wrapped: sdk_models.Model, role: str, line: Line) -> None:
        super().__init__(wrapped)
        self._role = role
        self._line = line
        self._choice = line.settings.for_role(role)
        self._price = line.settings.price_of(self._choice)
        self.answer = TEXT
        """What is asked for now; see ``Question.answer``."""
        self.tools: OfferedTools | None = None
        """What may be called before the answer; what was said goes to their ``heard``."""
        self.followers = 0
        """Requests that a correction of the answer must leave to those who work on with it."""
        self.last_text = ""
        """What the model wrote in the last request that it answered."""
        self.last_key = ""
        """Of the last call, on the tape."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: SdkSettings | None,
        model_request_parameters: sdk_models.ModelRequestParameters,
    ) -> ModelResponse:
        """Return the recorded or the model's own answer, after as many turns with tools as it wanted."""
        n_rejected = sum(isinstance(message, ModelResponse) for message in messages)
        if n_rejected and self.followers and not self._line.meter.has_calls(1 + self.followers):
            raise CallFailed(CallOutcome.INVALID_OUTPUT, "no request is left to correct it", self.last_text)
        ask = partial(self._answer, self._question(n_rejected, model_settings))
        if self.tools is None:
            return await ask(messages, model_settings, model_request_parameters)
        return await answer_with_tools(
            self.tools,
            ask,
            self._carry_out,
            self._line.meter,
            messages,
            model_settings,
            model_request_parameters,
        )

    def judge(self, outcome: CallOutcome, detail: str) -> None:
        """Note on the tape why the last answer could not be used."""
        self._line.tape.judge(self.last_key, outcome, self._line.keys.scrub(" ".join(detail.split())))

    async def _answer(
        self,
        question: Question,
        messages: list[ModelMessage],
        model_settings: SdkSettings | None,
        model_request_parameters: sdk_models.ModelRequestParameters,
        *,
        may_call: bool = False,
    ) -> ModelResponse:
        """Return the answer to one request, whatever it costs to get."""
        line, choice = self._line, self._choice
        may_call = may_call or bool(model_request_parameters.output_tools)
        request = line.keys.scrub(
            canonical(self._role, choice.model, messages, model_settings, model_request_parameters)
        )

        async def send(key: str) -> Sent:
            call, failure = await self._try(
                key, request, messages, model_settings, model_request_parameters, may_call=may_call
            )
            call = call.model_copy(update={"question": question})
            line.tape.add(call)
            return call, failure

        return await self._settle(question, request, send)

    async def _settle(self, question: Question, request: str, send: Send) -> ModelResponse:
        """Look a request up or send it until there is an answer; raises CallFailed."""
        patience = RequestPatience(self._line.rng)
        self.last_text = ""
        while True:
            key = self._next_key(request)
            early = self._line.early.pop(key, None)
            if early is None:
                self._line.meter.require()
            call = self._line.tape.find(key, question)
            is_new = call is None or early is not None
            if call is None:
                call, failure = await send(key)
            else:
                failure = early or RequestFailure(call.outcome, call.detail)
            self.last_key = call.key
            if early is None:
                self._charge(call)
            response = _load(call.response)
            self.last_text = raw_text(response) if response else ""
            if call.outcome is CallOutcome.OK and response is not None:
                return response
            wait = patience.wait_after(failure)
            if wait is None:
                raise CallFailed(call.outcome, call.detail, self.last_text)
            if is_new:
                await self._line.sleep(min(wait, self._seconds_left()))

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: sdk_models.ModelRequestParameters | None = None,
    ) -> list[ModelMessage]:
        """Send feedback on an answer as a plain user message, which every server's chat template takes.

        The answer that it is on is judged so. Rejected answers and feedback are cut to what the prompt's
        budget keeps free for them.
        """
        if (complaint := _complaint(messages[-1])) is not None:
            self.judge(CallOutcome.INVALID_OUTPUT, complaint)
        prepared = super().prepare_messages(
            [_plain(message) for message in messages], model_request_parameters
        )
        return bounded(prepared, correction_tokens(self._line.settings.prompt_tokens()))

    async def _carry_out(self, call: ToolCallPart) -> str:
        """Return what a tool said when it was recorded, or says now."""
        assert self.tools is not None
        name, arguments = call.tool_name, self._line.keys.scrub(arguments_of(call))
        asked = {"role": self._role, "tool": name, "args": arguments, "about": self.tools.base}
        request = json.dumps(asked, ensure_ascii=False, sort_keys=True)
        question = Question(role=self._role, model=self._choice.model, answer=f"what the tool {name} says")
        key = self._next_key(request)
        known = self._line.tape.find(key, question)
        if known is None:
            has_time = self._seconds_left() >= LEAST_S
            told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
            with span(self._line.settings.instrument, f"execute_tool {name}", told):
                said, seconds = await timed_use(self.tools, name, arguments) if has_time else (NO_TIME, 0.0)
            said = said.encode("utf-8", "replace").decode()
            known = ModelCall(
                key=key,
                question=question,
                role=self._role,
                model=self._choice.model,
                tool=name,
                request=request,
                response=json.dumps(self._line.keys.scrub(said), ensure_ascii=False),
                outcome=CallOutcome.OK,
                usd=0.0,
                seconds=seconds,
            )
            self._line.tape.add(known)
        said = json.loads(known.response or '""')
        self.tools.heard.append(said)
        return str(said)

    def _question(self, n_rejected: int, settings: SdkSettings | None) -> Question:
        return Question(
            role=self._role,
            model=self._choice.model,
            answer=self.answer,
            n_rejected=n_rejected,
            max_tokens=(settings or {}).get("max_tokens"),
            temperature=(settings or {}).get("temperature"),
        )

    def _next_key(self, request: str) -> str:
        key = self._key(request)
        self._line.asked[content_hash(request)] += 1
        return key

    def _key(self, request: str) -> str:
        """Return the key of a request that is next to come up."""
        digest = content_hash(request)
        return content_hash(digest, str(self._line.asked[digest] + 1))

    def _charge(self, call: ModelCall) -> None:
        tokens = call.input_tokens + call.output_tokens
        self._line.meter.charge(Spent(model_calls=1, tokens=tokens, usd=call.usd or 0.0))

    def _seconds_left(self) -> float:
        granted = self._line.meter.budget.seconds
        return float("inf") if granted is None else max(0.0, granted - self._line.meter.spent.seconds)

    async def _try(
        self,
        key: str,
        request: str,
        messages: list[ModelMessage],
        settings: SdkSettings | None,
        parameters: sdk_models.ModelRequestParameters,
        *,
        may_call: bool,
    ) -> tuple[ModelCall, RequestFailure]:
        """Send the request once; return the call to record and how it failed, if it did."""
        began = time.monotonic()
        answer = await send(self._line.settings, self._role, self._line.keys, messages, settings, parameters)
        blank = ModelCall(
            key=key,
            role=self._role,
            model=self._choice.model,
            request=request,
            response=None,
            outcome=CallOutcome.OK,
            seconds=round(time.monotonic() - began, 3),
        )
        if isinstance(answer, RequestFailure):
            return blank.model_copy(update={"outcome": answer.outcome, "detail": answer.detail}), answer
        return self._answered(blank, answer, may_call=may_call)

    def _answered(
        self, blank: ModelCall, response: ModelResponse, *, may_call: bool
    ) -> tuple[ModelCall, RequestFailure]:
        if not may_call:
            response.parts = [part for part in response.parts if isinstance(part, TextPart | ThinkingPart)]
        text: str | None = None
        outcome, detail = outcome_of(response)
        try:
            text = self._line.keys.scrub(ModelMessagesTypeAdapter.dump_json([response]).decode())
        except ValueError:
            outcome, detail = CallOutcome.MALFORMED_REPLY, "the answer's text is not valid Unicode"
        given, taken = response.usage.input_tokens, response.usage.output_tokens
        if not given and not taken:
            given, taken = _estimated(blank.request), _estimated(raw_text(response))
            detail = detail or "tokens estimated: the server reported none"
        failure = RequestFailure(outcome, self._line.keys.scrub(detail))
        call = blank.model_copy(
            update={
                "response": text,
                "outcome": failure.outcome,
                "detail": failure.detail,
                "input_tokens": given,
                "output_tokens": taken,
                "usd": self._price.cost(given, taken) if self._price else None,
            }
        )
        return call, failure


async def send(
    settings: ModelSettings,
    role: str,
    keys: Keys,
    messages: list[ModelMessage],
    sdk_settings: SdkSettings | None,
    parameters: sdk_models.ModelRequestParameters,
) -> ModelResponse | RequestFailure:
    """Send one request, once; exceptions of the API become a RequestFailure.

    The settings' wall time holds for a whole answer; for one that is streamed, for the first piece of it and
    then from each piece to the next.
    """
    try:
        with anyio.fail_after(settings.timeout_s) as limit:
            async with connect(settings, role, keys) as model:
                if settings.for_role(role).place not in settings.streaming:
                    return await model.request(messages, sdk_settings, parameters)
                async with model.request_stream(messages, sdk_settings, parameters) as stream:
                    async for _ in stream:
                        limit.deadline = anyio.current_time() + settings.timeout_s
                    return whole(stream.get())
    except Exception as error:
        failure = failure_of(error, settings.for_role(role).name, keys)
        if failure is None:
            raise
        return failure


def sdk_settings(settings: ModelSettings, role: str, model: sdk_models.Model) -> SdkSettings:
    """Return the request's settings in pydantic-ai's terms; the SDK's own retries are off."""
    choice = settings.for_role(role)
    found = SdkSettings(max_tokens=choice.max_output_tokens)
    if choice.temperature is not None:
        found["temperature"] = choice.temperature
    if settings.effort is not None:
        found["thinking"] = settings.effort
    found["cache"] = PREFIX_ALONE
    if "max_retries" not in model.unsupported_settings:
        found["max_retries"] = 0
    return found


def _plain(message: ModelMessage) -> ModelMessage:
    if not isinstance(message, ModelRequest):
        return message
    parts = [
        UserPromptPart(_feedback(part.content)) if isinstance(part, RetryFeedbackPart) else part
        for part in message.parts
    ]
    return replace(message, parts=parts)


def _complaint(message: ModelMessage) -> str | None:
    """Return what the last answer is told to mend, whatever the mode in which JSON is asked for."""
    for part in message.parts if isinstance(message, ModelRequest) else ():
        if isinstance(part, RetryFeedbackPart):
            return _feedback(part.content)
        if isinstance(part, ToolReturnPart) and part.outcome == "retried":
            return _feedback(part.content if isinstance(part.content, list) else str(part.content))
    return None


def _feedback(content: str | list[ErrorDetails]) -> str:
    if isinstance(content, str):
        return content
    return f"The answer does not conform to the schema: {complaints(content)}"


def canonical(
    role: str,
    model: str,
    messages: list[ModelMessage],
    settings: SdkSettings | None,
    parameters: sdk_models.ModelRequestParameters,
) -> str:
    """Return the request as JSON that is the same in every run that asks the same."""
    asked: dict[str, object] = {
        "role": role,
        "model": model,
        "settings": {
            name: (settings or {}).get(name)
            for name in ("max_tokens", "temperature", "thinking")
            if name in (settings or {}) or name != "thinking"
        },
        "output": _output(parameters),
        "messages": [
            {
                "instructions": getattr(message, "instructions", None),
                "parts": [
                    {name: part[name] for name in SAME_WHATEVER_THE_TIME if name in part}
                    for part in dumped["parts"]
                ],
            }
            for message, dumped in zip(
                messages, ModelMessagesTypeAdapter.dump_python(messages, mode="json"), strict=True
            )
        ],
    }
    if parameters.function_tools:
        asked["tools"] = [[tool.name, tool.parameters_json_schema] for tool in parameters.function_tools]
    return json.dumps(asked, ensure_ascii=False, sort_keys=True)


def _output(parameters: sdk_models.ModelRequestParameters) -> list[object]:
    """Return the schemas that the request itself carries; those in a prompt are part of the messages."""
    tools: list[object] = [tool.parameters_json_schema for tool in parameters.output_tools]
    if parameters.output_object is not None:
        tools.append(parameters.output_object.json_schema)
    return tools


def _load(response: str | None) -> ModelResponse | None:
    if response is None:
        return None
    try:
        (message,) = ModelMessagesTypeAdapter.validate_json(response)
    except NOT_THE_PROTOCOL:
        return None
    return message if isinstance(message, ModelResponse) else None


def _estimated(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
