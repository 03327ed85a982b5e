"""A run's requests to models: how each ended, and how many tokens each section of its prompt took."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.core.model_call import CallOutcome, ModelCall

RULES, SCHEMAS = "Rules and form of the answer", "Tools and schemas of answers"
OTHER = "Beside the sections"
_TITLE = re.compile(r"## (\S.*)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ID = re.compile(r", [0-9a-f]{6,}\b")
_SYSTEM = frozenset({"system", "system-prompt", "instructions", "developer"})


@dataclass(frozen=True)
class CallRow:
    """One request."""

    number: int
    role: str
    model: str
    tool: str | None
    """Name of the tool that was carried out; None: a request to the model."""
    outcome: CallOutcome
    """Of the transport, or what the role made of the answer where it could not use it."""
    why: str
    input_tokens: int
    output_tokens: int
    sections: tuple[tuple[str, int], ...]
    """Title -> tokens, in the order of the prompt; empty where the request was not kept."""


@dataclass(frozen=True)
class SectionRow:
    """One section in all prompts of a run."""

    title: str
    tokens: int
    share: float
    per_role: tuple[int | None, ...]
    """Tokens a prompt, by role; None: no prompt of that role has the section."""


@dataclass(frozen=True)
class PromptTables:
    """Every request, and every section."""

    calls: tuple[CallRow, ...]
    roles: tuple[str, ...]
    sections: tuple[SectionRow, ...]


def prompt_tables(calls: Iterable[ModelCall]) -> PromptTables:
    """Return what a run's recorded calls say."""
    rows = tuple(_row(number, call) for number, call in enumerate(calls, 1))
    asked = [row for row in rows if row.sections]
    roles = tuple(dict.fromkeys(row.role for row in asked))
    n_prompts = {role: sum(row.role == role for row in asked) for role in roles}
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in asked:
        for title, tokens in row.sections:
            found[title][row.role] += tokens
    total = sum(sum(by_role.values()) for by_role in found.values())
    sections = [_section(title, by_role, total, n_prompts) for title, by_role in found.items()]
    return PromptTables(rows, roles, tuple(sorted(sections, key=lambda one: -one.tokens)))


def message_texts(recorded: str, who: str) -> Iterator[tuple[str, str]]:
    """Yield who speaks and what, in order, whatever the protocol's nesting; text that is no JSON as it is."""
    try:
        yield from list(_texts(json.loads(recorded), who))
    except ValueError:
        yield who, recorded


def _texts(value: Any, who: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield who, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, who)
    elif isinstance(value, dict):
        who = str(value.get("role") or value.get("part_kind") or who)
        yield from _texts(value.get("instructions"), "instructions")
        for key in ("parts", "messages", "content", "args", "text"):
            yield from _texts(value.get(key), who)


def _section(title: str, by_role: Mapping[str, int], total: int, n_prompts: Mapping[str, int]) -> SectionRow:
    tokens = sum(by_role.values())
    per_role = tuple(round(by_role[role] / n) if role in by_role else None for role, n in n_prompts.items())
    return SectionRow(title, tokens, tokens / max(total, 1), per_role)


def _row(number: int, call: ModelCall) -> CallRow:
    sections = _sizes(call.request) if call.tool is None and call.request else {}
    n_bytes = max(sum(sections.values()), 1)
    return CallRow(
        number=number,
        role=call.role,
        model=call.model,
        tool=call.tool,
        outcome=call.judged or call.outcome,
        why=call.judged_detail or call.detail,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        sections=tuple((t, round(call.input_tokens * size / n_bytes)) for t, size in sections.items()),
    )


def _sizes(recorded: str) -> dict[str, int]:
    """Return the bytes of each section of a request."""
    sizes: dict[str, int] = defaultdict(int)
    rules = set[str]()
    for who, text in message_texts(recorded, "request"):
        if who not in _SYSTEM:
            for title, part in split(text):
                sizes[title] += _bytes(part)
        elif text not in rules:  # it stands in every message, and is sent once
            rules.add(text)
            sizes[RULES] += _bytes(text)
    if schemas := _schemas(recorded):
        sizes[SCHEMAS] = _bytes(schemas)
    return sizes


def _schemas(recorded: str) -> str:
    """Return what the server is told beside messages: tools, and the form of a structured answer."""
    try:
        asked = json.loads(recorded)
    except ValueError:
        return ""
    told = [asked.get(key) for key in ("tools", "output")] if isinstance(asked, dict) else []
    return "".join(json.dumps(one, ensure_ascii=False) for one in told if one)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))


def split(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sections of a message, as the prompt titles them; ids are left out of titles."""
    title, lines, fence = OTHER, list[str](), ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        if not fence and (found := _TITLE.match(line)):
            if lines:
                yield title, "".join(lines)
            title, lines = _ID.sub("", found[1].strip()), []
        lines.append(line)
    if lines:
        yield title, "".join(lines)
