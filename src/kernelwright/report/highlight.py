"""Syntax colouring of a generated kernel: Python outside, C++ inside its long string."""

import re
from html import escape

from kernelwright.core.visible import visible_lines

_PYTHON_WORDS = (
    "and as assert break class continue def del elif else except finally for from global if import in is "
    "lambda None nonlocal not or pass raise return True False try while with yield self"
)
_CPP_WORDS = (
    "auto bool break case char class const constexpr continue default do double else enum extern false "
    "float for if inline int int32_t int64_t long namespace noexcept nullptr private public restrict return "
    "short signed size_t sizeof static static_cast struct switch template this true typedef typename uint8_t "
    "uint32_t uint64_t unsigned using void volatile while __restrict__ __restrict"
)


def _tokens(words: str, comment: str, extra: str) -> re.Pattern[str]:
    names = "|".join(words.split())
    return re.compile(
        rf"(?P<comment>{comment}){extra}"
        r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
        rf"|(?P<keyword>\b(?:{names})\b)"
        r"|(?P<number>\b(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)[fFuUlL]*\b)"
        r"|(?P<call>\b[A-Za-z_]\w*(?=\())"
    )


_PYTHON = _tokens(
    _PYTHON_WORDS,
    r"#[^\n]*",
    r"|(?P<long>[rRbBfF]{0,2}(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''))|(?P<meta>@[\w.]+)",
)
_CPP = _tokens(_CPP_WORDS, r"//[^\n]*|/\*[\s\S]*?\*/", r"|(?P<meta>^[ \t]*\#[^\n]*)")
_CPP = re.compile(_CPP.pattern, re.MULTILINE)


def highlight(source: str) -> str:
    """Return HTML with ``<span class="tok-…">`` around tokens; of the text only hidden characters change."""
    return _colour(visible_lines(source), _PYTHON)


def _colour(source: str, pattern: re.Pattern[str]) -> str:
    parts, end = [], 0
    for match in pattern.finditer(source):
        parts.append(escape(source[end : match.start()], quote=False))
        parts.append(_span(match.lastgroup or "", match.group()))
        end = match.end()
    parts.append(escape(source[end:], quote=False))
    return "".join(parts)


def _span(kind: str, text: str) -> str:
    if kind == "long" and "#include" in text:
        quote = re.match(r"[rRbBfF]{0,2}.{3}", text)
        start = quote.end() if quote else 0
        return _span("string", text[:start]) + _colour(text[start:-3], _CPP) + _span("string", text[-3:])
    kind = "string" if kind == "long" else kind
    return f'<span class="tok-{kind}">{escape(text, quote=False)}</span>'
