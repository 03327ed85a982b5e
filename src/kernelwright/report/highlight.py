"""Syntax colouring of a generated kernel by Pygments: Python outside, C++ inside its long string."""

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from typing import Any, TypeAlias

from pygments.lexer import include
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from kernelwright.core.visible import visible_lines

Token: TypeAlias = tuple[Any, str]
_CLASSES = (
    (Comment.Preproc, "meta"), (Comment.PreprocFile, "meta"), (Name.Decorator, "meta"),
    (Comment, "comment"), (String, "string"), (Keyword, "keyword"), (Operator.Word, "keyword"),
    (Number, "number"), (Name.Function, "name"), (Name.Class, "name"),
)  # fmt: skip
"""Types of tokens that have a colour in report.css; the first that fits counts."""
LONGEST = 100_000
"""Characters of a text that is coloured; whoever wrote it may have wanted this to take long."""
_QUOTES = ('"""', "'''")


class _Cpp(CppLexer):
    """C++ without the rules for functions and raw strings: their time is quadratic on hostile text."""

    tokens = {  # noqa: RUF012 (the lexer's metaclass compiles it)
        "root": [
            (r"\s*\n", Whitespace), (r'R(?=")', String), include("whitespace"), include("statements"),
            (r"[{};]", Punctuation),
        ]
    }  # fmt: skip


_CPP: Any = _Cpp
"""Made anew for each text; its library has no types for that."""


def highlight(source: str) -> str:
    """Return HTML with ``<span class="tok-…">`` around tokens; of the text only hidden characters change."""
    text = visible_lines(source)
    if len(text) > LONGEST:
        return escape(text, quote=False)
    tokens = _with_cpp(_tokens(PythonLexer(), text))
    runs = groupby(tokens, key=lambda token: _class(token[0]))
    return "".join(_span(name, "".join(text for _, text in run)) for name, run in runs)


def _tokens(lexer: Any, source: str) -> Iterator[Token]:
    """Yield the tokens of a text as it is; ``get_tokens`` would strip lines."""
    return ((kind, text) for _, kind, text in lexer.get_tokens_unprocessed(source))


def _with_cpp(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens, those of C++ in the place of a long string that holds some."""
    for is_string, run in groupby(tokens, key=lambda token: token[0] in String):
        found = list(run)
        text = "".join(one for _, one in found)
        quote = next((mark for mark in _QUOTES if mark in text and text.endswith(mark)), None)
        if not is_string or quote is None or "#include" not in text:
            yield from found
            continue
        begin, _, rest = text.partition(quote)
        yield String, begin + quote
        yield from _tokens(_CPP(), rest.removesuffix(quote))
        yield String, quote


def _class(kind: Any) -> str:
    return next((name for wanted, name in _CLASSES if kind in wanted), "")


def _span(name: str, text: str) -> str:
    words = escape(text, quote=False)
    return f'<span class="tok-{name}">{words}</span>' if name else words
