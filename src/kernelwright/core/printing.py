"""Prints a syntax tree as the same text under every version of Python, for each of them to read.

From 3.12 on ``ast.unparse`` writes f-strings whose quotes recur inside, which 3.11 cannot read. Here they are
written as 3.11 does.
"""

import ast
import copy
import re

_QUOTES = ("'", '"', '"""', "'''")
"""In order of preference."""
_NAME, _PLACE = "\ue000{}\ue000", re.compile("\ue000([0-9]+)\ue000")
"""Strings are written with this character escaped, and no name holds it."""
_BRACKETED = (ast.IfExp, ast.Lambda)
"""What stands in brackets inside an f-string and nowhere else."""


def unparse(tree: ast.AST) -> str:
    """Return the text of a syntax tree; raises ValueError where an f-string cannot be written."""
    fstrings = _FStrings()
    text = ast.unparse(fstrings.visit(copy.deepcopy(tree)))
    return _PLACE.sub(lambda place: fstrings.written[int(place[1])], text)


class _FStrings(ast.NodeTransformer):
    """Writes every f-string and puts a name that no program has in its place."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.written.append(_fstring(node))
        return ast.Name(_NAME.format(len(self.written) - 1), ast.Load())


def _fstring(node: ast.JoinedStr) -> str:
    quotes: tuple[str, ...] = _QUOTES
    parts = []
    for value in node.values:
        part, quotes = _quotable(_part(value), quotes, is_text=isinstance(value, ast.Constant))
        parts.append(part)
    return f"f{quotes[0]}{''.join(parts)}{quotes[0]}"


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value).replace("{", "{{").replace("}", "}}")
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_part, node.values))
    assert isinstance(node, ast.FormattedValue)
    inside = unparse(node.value)
    if isinstance(node.value, _BRACKETED):
        inside = f"({inside})"
    if "\\" in inside:
        raise ValueError("no f-string of Python 3.11 has a backslash inside its brackets")
    gap = " " if inside.startswith("{") else ""
    conversion = f"!{chr(node.conversion)}" if node.conversion != -1 else ""
    form = f":{_part(node.format_spec)}" if node.format_spec else ""
    return f"{{{gap}{inside}{conversion}{form}}}"


def _quotable(text: str, quotes: tuple[str, ...], *, is_text: bool) -> tuple[str, tuple[str, ...]]:
    """Return text as it stands between quotes, and those of the quotes between which it can stand."""
    escaped = "".join(_escaped(c) if is_text or c not in "\n\t" else c for c in text)
    fitting = [q for q in quotes if q not in escaped and ("\n" not in escaped or len(q) > 1)]
    if not fitting:
        raise ValueError("no quotes are left for an f-string")
    if escaped:
        fitting.sort(key=lambda q: q[0] == escaped[-1])
        if fitting[0][0] == escaped[-1]:
            escaped = f"{escaped[:-1]}\\{escaped[-1]}"
    return escaped, tuple(fitting)


def _escaped(c: str) -> str:
    return c if c != "\\" and c.isprintable() else c.encode("unicode_escape").decode("ascii")
