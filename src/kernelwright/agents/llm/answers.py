"""From a model's text to a source, or to the named outcome that says why there is none.

What is decided here is only whether an answer is usable. Whether a kernel is right, and fast, is the
referee's to say.
"""

import ast
import itertools
import re
import textwrap
from dataclasses import dataclass
from typing import Generic, TypeVar

from kernelwright.agents.llm.outputs import ProposedMove
from kernelwright.agents.llm.reference_checks import hides_reference, is_reference
from kernelwright.agents.llm.sources import unfold
from kernelwright.core.errors import UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.open_parameters import open_parameters
from kernelwright.core.target import TargetName
from kernelwright.targets.module_file.constructor import NEW_NAME
from kernelwright.targets.registry import target_of

V = TypeVar("V")

_FENCE = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n`]*\n", re.M)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S)
"""Some servers send the model's deliberation as part of its text; drafts in it are no answer."""
_DEFINES = re.compile(rf"^(?:class[ \t]+{NEW_NAME}\b|{NEW_NAME}[ \t]*=)", re.M)
_REFUSAL = re.compile(
    r"\b(?:i(?:'m| am)? (?:sorry|unable|not able)|i (?:can(?:no|')t|can not|won't|will not|must decline)"
    r"|(?:can(?:no|')t|unable to) (?:help|assist|comply))\b",
    re.I,
)
_ACCOUNT_LINE = re.compile(r"^[\s*>-]*(?:step\s+)?(\d+|outside)\b[\s.:)*]*(?:->|=>|→)\s*(\S.*)$", re.I | re.M)
_NAMED = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Judged(Generic[V]):
    """What an answer comes to."""

    outcome: CallOutcome
    value: V | None = None
    """None unless the outcome is OK."""
    detail: str = ""
    """One line: what is wrong with it."""


@dataclass(frozen=True)
class ExpectedAnswer:
    """What a source is asked for."""

    reference: str
    """The task's own source."""
    target: TargetName
    needs_kernel: bool = True
    """False where the base has no kernel of its own either, or the change is algebra alone."""


@dataclass(frozen=True)
class CodeBlock:
    """A fenced piece of an answer."""

    language: str
    text: str
    end: int
    """Where the answer goes on after it."""


def read_source(text: str, expected: ExpectedAnswer) -> Judged[str]:
    """Return the candidate's source, with the loader in place, or why the answer has none."""
    text = _THOUGHT.sub("", text)
    if not text.strip():
        return Judged(CallOutcome.EMPTY, detail="the answer was empty")
    sources = list(dict.fromkeys(block.text for block in _candidate_blocks(text)))
    if len(sources) > 1:
        return Judged(
            CallOutcome.SEVERAL_BLOCKS, detail=f"{len(sources)} different blocks define `{NEW_NAME}`"
        )
    if not sources:
        if _REFUSAL.search(text[:400]) and not find_blocks(text):
            return Judged(CallOutcome.REFUSED, detail=_first_line(text))
        return Judged(CallOutcome.NO_CODE, detail=f"no Python block defines `{NEW_NAME}`")
    source = unfold(sources[0].strip("\n") + "\n")
    return _find_unusable(source, expected) or Judged(CallOutcome.OK, source)


def split_kernels(text: str) -> tuple[str, ...]:
    """Return an answer that may hold several kernels in parts, each a kernel with the words before it."""
    text = _THOUGHT.sub("", text)
    ends = [block.end for block in _candidate_blocks(text)]
    if len(ends) < 2:
        return (text,)
    return tuple(text[begin:end] for begin, end in itertools.pairwise((0, *ends)))


def find_blocks(text: str) -> tuple[CodeBlock, ...]:
    """Return the fenced blocks; the last may lack its end."""
    blocks, position = [], 0
    while (opening := _FENCE.search(text, position)) is not None:
        stop, position = _end_of(text, opening)
        inside = text[opening.end() : stop]
        is_indented = opening[0][0] in " \t"
        inside = textwrap.dedent(inside) if is_indented else inside
        blocks.append(CodeBlock(opening["language"].lower(), inside, position))
    return tuple(blocks)


def _end_of(text: str, opening: re.Match[str]) -> tuple[int, int]:
    """Return where a block's text and its closing fence end; a block without one lasts to the end."""
    closing = re.compile(rf"^[ \t]*{re.escape(opening['mark'])}[`~]*[ \t]*$", re.M)
    end = closing.search(text, opening.end())
    return (end.start(), end.end()) if end else (len(text), len(text))


def prose(text: str) -> str:
    """Return the answer without its blocks and deliberations."""
    text = _THOUGHT.sub("", text)
    kept, position = [], 0
    while (opening := _FENCE.search(text, position)) is not None:
        kept.append(text[position : opening.start()])
        position = _end_of(text, opening)[1]
    return "".join([*kept, text[position:]])


def read_account(text: str, source: str) -> dict[str, str]:
    """Return the plan-to-code account: step number, or ``outside``, -> what was done where.

    Only lines ``N -> `name`: what`` count whose name occurs in the source.
    """
    account: dict[str, str] = {}
    for number, line in _ACCOUNT_LINE.findall(prose(text)):
        names = [name.strip().removesuffix("()") for name in _NAMED.findall(line)]
        if any(name and name in source for name in names):
            account.setdefault(number.lower(), line.strip())
    return account


def read_line(text: str, label: str) -> str:
    """Return what follows ``label:`` on a line of the prose, empty when there is none."""
    found = re.search(rf"^[\s*#>-]*{label}[*\s]*:[*\s]*(\S.*)$", prose(text), re.I | re.M)
    return found[1].strip() if found else ""


def read_move(text: str) -> ProposedMove:
    """Return the move that an answer with a kernel announces, its account as steps."""
    steps = [line.strip() for number, line in _ACCOUNT_LINE.findall(prose(text)) if number.isdigit()]
    quotes = re.split(r"\s*;\s*", read_line(text, "evidence"))
    return ProposedMove(
        skill=read_line(text, "skill"),
        why=read_line(text, "why"),
        evidence=[quote for quote in quotes if quote],
        expects=read_line(text, "expects"),
        steps=steps,
        differs=read_line(text, "differs"),
    )


def has_native_kernel(source: str, target: TargetName) -> bool:
    """Tell whether the file brings a kernel in the target's language; true where models are not asked."""
    language = target_of(target).prompting
    return language is None or language.own.search(source) is not None


def _candidate_blocks(text: str) -> list[CodeBlock]:
    """Return the blocks that define ModelNew; the whole answer where it is a file without a fence."""
    found = [b for b in find_blocks(text) if b.language in ("", "python", "py", "python3")]
    found = [b for b in found if _DEFINES.search(b.text)]
    if not found and not find_blocks(text) and _DEFINES.search(text) and _parsed(text) is not None:
        return [CodeBlock("python", text, len(text))]
    return found


def _find_unusable(source: str, expected: ExpectedAnswer) -> Judged[str] | None:
    """Return the named outcome of a source that may not be handed in; None for any other, broken or not."""
    tree = _parsed(source)
    if tree is not None:
        if is_reference(tree, expected.reference):
            return Judged(CallOutcome.REFERENCE_RETURNED, detail="the source is the reference, renamed")
        if (unread := _unread_tune(source)) is not None:
            return Judged(CallOutcome.INVALID_OUTPUT, detail=unread)
        if (way_out := hides_reference(tree, expected.reference)) is not None:
            return Judged(CallOutcome.HIDES_REFERENCE, detail=way_out)
    wanted = target_of(expected.target).prompting
    for language, sign in (wanted.foreign if wanted else {}).items():
        if sign.search(source):
            detail = f"the kernel is written in {language}; the target is {expected.target}"
            return Judged(CallOutcome.WRONG_LANGUAGE, detail=detail)
    if expected.needs_kernel and not has_native_kernel(source, expected.target):
        detail = f"there is no kernel of its own for {expected.target} in the source"
        return Judged(CallOutcome.WRONG_LANGUAGE, detail=detail)
    return None


def _unread_tune(source: str) -> str | None:
    """Return why what the source leaves open cannot be read; None where nothing is wrong with it."""
    try:
        open_parameters(source)
    except UserError as error:
        return str(error)
    return None


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200]
