"""The turns of one answer: the model asks tools, hears what they say, and then answers.

Every turn is a request like any other: looked up on the tape, charged, tried again. What a tool said is on
the tape too, so that nothing is carried out twice and a replay carries out nothing.
"""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import anyio.to_thread
from pydantic_ai import models as sdk_models
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.settings import ModelSettings as SdkSettings
from pydantic_ai.tools import ToolDefinition

from kernelwright.agents.llm.corrections import bounded
from kernelwright.agents.llm.tools import OfferedTools
from kernelwright.core.budget import Meter

USED_UP = "Not carried out: no tool call is left for this answer. Answer now, as described."
NO_TIME = "Not carried out: the time of this run is nearly used up. Answer now, as described."
LEAST_S = 60.0
"""A tool may take about so long; with fewer seconds left in the budget none is carried out. Ours."""
NOT_YET = "Not taken: tools were asked in the same message. Answer once you have read what they say."


class Ask(Protocol):
    """Sends one request of an answer."""

    def __call__(
        self,
        messages: list[ModelMessage],
        settings: SdkSettings | None,
        parameters: sdk_models.ModelRequestParameters,
        *,
        may_call: bool,
    ) -> Awaitable[ModelResponse]:
        """Return the answer; calls of tools are in it only where they may be, or answer by a tool."""
        ...


def has_calls_for_tools(meter: Meter, offered: OfferedTools) -> bool:
    """Tell whether the budget has a request for a turn, one for the answer, and those that must follow."""
    return meter.has_calls(2 + offered.followers)


async def answer_with_tools(
    offered: OfferedTools,
    ask: Ask,
    carry_out: Callable[[ToolCallPart], Awaitable[str]],
    meter: Meter,
    messages: list[ModelMessage],
    settings: SdkSettings | None,
    parameters: sdk_models.ModelRequestParameters,
) -> ModelResponse:
    """Return the first answer that asks for no tool."""
    answering = {tool.name for tool in parameters.output_tools}
    with_tools = replace(parameters, function_tools=definitions(offered))
    turns: list[ModelMessage] = []
    left = offered.most_calls
    while True:
        may_call = left > 0 and has_calls_for_tools(meter, offered)
        if not may_call and not turns:
            return await ask(messages, settings, parameters, may_call=False)
        # Some protocols want the definitions with every request that tells of a call.
        asked = settings if may_call else SdkSettings(**{**(settings or {}), "tool_choice": "none"})
        response = await ask(_told(messages, turns, offered), asked, with_tools, may_call=may_call)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if not may_call or all(call.tool_name in answering for call in calls):
            return response
        results = []
        for call in calls:
            if call.tool_name in answering:
                said = NOT_YET
            else:
                said = await carry_out(call) if left > 0 else USED_UP
                left -= 1
            results.append(
                ToolReturnPart(tool_name=call.tool_name, content=said, tool_call_id=call.tool_call_id)
            )
        turns += [response, ModelRequest(parts=results)]


def definitions(offered: OfferedTools) -> list[ToolDefinition]:
    """Return the tools as requests carry them."""
    return [
        ToolDefinition(name=tool.name, parameters_json_schema=tool.schema, description=tool.says)
        for tool in offered.tools
    ]


def arguments_of(call: ToolCallPart) -> str:
    """Return what the model wrote as arguments, JSON or not."""
    return call.args if isinstance(call.args, str) else json.dumps(call.args or {})


async def timed_use(offered: OfferedTools, name: str, arguments: str) -> tuple[str, float]:
    """Return what a tool says and its seconds; an interruption does not wait for it."""
    began = time.monotonic()
    said = await anyio.to_thread.run_sync(partial(offered.use, name, arguments), abandon_on_cancel=True)
    return said, round(time.monotonic() - began, 3)


def _told(
    messages: list[ModelMessage], turns: list[ModelMessage], offered: OfferedTools
) -> list[ModelMessage]:
    """Return the question with its turns; where there is little room, with the last turn, cut to fit."""
    if offered.total_tokens is None or not turns:
        return [*messages, *turns]
    return [*messages, *bounded([messages[0], *turns], offered.total_tokens)[1:]]
