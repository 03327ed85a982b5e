"""One JSON object out of whatever a model wrote around it, validated."""

import json
from collections.abc import Sequence
from json import JSONDecoder
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kernelwright.agents.llm.window import estimate_tokens

T = TypeVar("T", bound=BaseModel)

MAX_STARTS = 1_000
"""Braces tried as the beginning of an object, so that hostile text costs bounded time; our choice."""
MAX_COMPLAINTS = 8
"""Validation errors quoted to the model; our choice."""

SHOWN_CHARS = 40
"""Characters quoted before the place where JSON breaks; our choice."""


class NotAnswered(Exception):
    """The text holds no valid object; the message tells the model what to mend."""


def ask_for_json(system: str, output: type[BaseModel]) -> str:
    """Return the system prompt with the request for one object of that schema."""
    schema = json.dumps(output.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return (
        f"{system.rstrip()}\n\nAnswer with exactly one JSON object and nothing else. "
        f"It must conform to this JSON schema:\n{schema}\n"
    )


def schema_tokens(output: type[BaseModel]) -> int:
    """Return what asking for that schema adds to a prompt, by ``estimate_tokens``."""
    return estimate_tokens(ask_for_json("", output))


def find_objects(text: str) -> list[dict[str, object]]:
    """Return the outermost JSON objects in the text, in order; never raises."""
    decoder = JSONDecoder(strict=False)
    found: list[dict[str, object]] = []
    position = text.find("{")
    for _ in range(MAX_STARTS):
        if position < 0:
            break
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            found.append(value)
        position = text.find("{", end)
    return found


def parse(text: str, output: type[T]) -> T:
    """Return the one valid object in the text.

    Raises:
        NotAnswered: there is none, or there are several different ones: which was meant is not ours to guess.
    """
    candidates = find_objects(text)
    if not candidates:
        raise NotAnswered(f"{_where_it_breaks(text)} Answer with exactly one JSON object.")
    valid: list[T] = []
    complaint = ""
    for candidate in candidates:
        try:
            value = output.model_validate_json(json.dumps(candidate))
        except ValidationError as error:
            complaint = complaints(error.errors(include_url=False, include_input=False))
            continue
        if value not in valid:
            valid.append(value)
    if not valid:
        broken = _where_it_breaks(text) if _is_around(text) else ""
        raise NotAnswered(broken or f"The JSON object does not conform to the schema: {complaint}")
    if len(valid) > 1:
        raise NotAnswered(f"There were {len(valid)} different JSON objects. Answer with exactly one.")
    return valid[0]


def _where_it_breaks(text: str) -> str:
    """Say why there is no object in the text: none was begun, or where the first one stops being JSON."""
    begin = text.find("{")
    if begin < 0:
        return "There was no JSON object in the answer."
    try:
        JSONDecoder(strict=False).raw_decode(text, begin)
    except json.JSONDecodeError as error:
        before = " ".join(text[max(begin, error.pos - SHOWN_CHARS) : error.pos].split())
        return f"The JSON breaks at line {error.lineno}, column {error.colno}: {error.msg}, after `{before}`."
    except RecursionError:
        return "The JSON is nested too deeply."
    return "There was no JSON object in the answer."


def _is_around(text: str) -> bool:
    """Return whether the first object stops being JSON only after another one that lies in it."""
    begin = text.find("{")
    try:
        JSONDecoder(strict=False).raw_decode(text, begin)
    except json.JSONDecodeError as error:
        return bool(find_objects(text[begin + 1 : error.pos]))
    except RecursionError:
        return False
    return False


def complaints(errors: Sequence[ErrorDetails]) -> str:
    """Return where the object is wrong and how, on one line."""
    every = [f"{'.'.join(map(str, item['loc'])) or 'the object'}: {item['msg']}" for item in errors]
    rest = len(every) - MAX_COMPLAINTS
    return "; ".join(every[:MAX_COMPLAINTS]) + (f"; and {rest} more" if rest > 0 else "")
