"""What a rejected answer and the complaint about it may take of the next request."""

import json
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from kernelwright.agents.llm.window import cut_to, estimate_tokens

MARK = "[...]"
"""Stands for a text of which nothing fits."""
COMPLAINT_SHARE = 4
"""The complaint gets one part in so many at most, the answer what it leaves; our choice."""


def bounded(messages: list[ModelMessage], tokens: int) -> list[ModelMessage]:
    """Return a question and its corrections, these in at most so many tokens by ``estimate_tokens``.

    Where they are too long only the last answer and the complaint about it are sent, cut to fit; the
    complaint matters more.
    """
    question, corrections = messages[:1], messages[1:]
    if sum(map(_size, corrections)) <= tokens:
        return messages
    answer, complaint = corrections[-2:]
    complaint = _cut(complaint, tokens // COMPLAINT_SHARE)
    return [*question, _cut(answer, tokens - _size(complaint)), complaint]


def _size(message: ModelMessage) -> int:
    return sum(estimate_tokens(_text(part)) for part in message.parts)


def _text(part: object) -> str:
    if isinstance(part, ToolCallPart):
        return part.args_as_json_str()
    content = getattr(part, "content", "")
    return content if isinstance(content, str) else json.dumps(content, default=str)


def _cut(message: ModelMessage, tokens: int) -> ModelMessage:
    """Return the message with its texts cut; what a model only thought is left out."""
    if isinstance(message, ModelResponse):
        said = [part for part in message.parts if isinstance(part, TextPart | ToolCallPart)]
        return replace(message, parts=[_cut_answer(part, tokens // len(said)) for part in said])
    told = [part for part in message.parts if isinstance(part, UserPromptPart | ToolReturnPart)]
    texts = [_cut_text(_text(part), tokens // len(told)) for part in told]
    parts = [replace(part, content=text) for part, text in zip(told, texts, strict=True)]  # type: ignore[arg-type]
    return replace(message, parts=parts)


def _cut_answer(part: TextPart | ToolCallPart, tokens: int) -> TextPart | ToolCallPart:
    if isinstance(part, TextPart):
        return replace(part, content=_cut_text(part.content, tokens))
    return part if estimate_tokens(_text(part)) <= tokens else replace(part, args={"cut": MARK})


def _cut_text(text: str, tokens: int) -> str:
    return cut_to(text, tokens) or MARK
