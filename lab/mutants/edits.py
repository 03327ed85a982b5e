"""How a mutation operator changes a text: one place at a time."""

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

Operator: TypeAlias = Callable[[str], Iterator[str]]
"""From a text to its mutants, one for each place where the operator applies; none where it does not."""
Replacement: TypeAlias = str | Callable[["re.Match[str]"], str | None]
"""Template as in ``re.sub``, or a function; None leaves a place alone."""


def at_each(text: str, pattern: str, replacement: Replacement, start: int = 0) -> Iterator[str]:
    """Yield the text with one match of the pattern replaced, for every match from ``start`` on."""
    for match in re.compile(pattern, re.MULTILINE).finditer(text, start):
        new = match.expand(replacement) if isinstance(replacement, str) else replacement(match)
        if new is not None and new != match[0]:
            yield text[: match.start()] + new + text[match.end() :]


def calls(text: str, name: str, start: int = 0) -> Iterator[tuple[int, int, list[str]]]:
    """Yield begin, end and the arguments of every call ``name(...)`` from ``start`` on."""
    for match in re.compile(rf"(?<![\w.]){re.escape(name)}\(").finditer(text, start):
        arguments, end = _arguments(text, match.end())
        if end:
            yield match.start(), end, arguments


def _arguments(text: str, begin: int) -> tuple[list[str], int]:
    """Split what follows an opening bracket at its commas; the end is 0 when it is never closed."""
    found, depth, first = [], 0, begin
    for i in range(begin, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}" and depth:
            depth -= 1
        elif text[i] == ")":
            found.append(text[first:i].strip())
            return found, i + 1
        elif text[i] == "," and not depth:
            found.append(text[first:i].strip())
            first = i + 1
    return found, 0


def outside_brackets(text: str, symbols: str) -> Iterator[int]:
    """Yield where a spaced binary operator stands that is in no index: ``a + b[i + 1]`` has one."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter in symbols and not depth and text[i - 1 : i + 2] == f" {letter} ":
            yield i
