"""A stranger's source as part of a file of ours: what must stand at the top goes there; nothing runs."""

import ast
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from kernelwright.core.errors import UserError
from kernelwright.core.printing import unparse

_FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError)


class MovedSource(NamedTuple):
    """A source that stands after statements of ours."""

    top: str
    """Imports that belong at the top of the file, before ours; a line each, often none."""
    rest: str


def parsed(source: str, label: object) -> ast.Module:
    """Return a source's syntax tree; raises UserError in one line, which begins with the label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a stranger's style
        try:
            return ast.parse(source)
        except _FAILURES as error:
            raise _not_python(label, error) from error


def require_python(text: str, label: object) -> str:
    """Return a text that Python compiles, which says more than that it can be parsed; raises UserError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<converted>", "exec", dont_inherit=True)
        except _FAILURES as error:
            raise _not_python(label, error) from error
    return text


def _not_python(label: object, error: BaseException) -> UserError:
    return UserError(f"{label}: not Python ({' '.join(str(error).split())})")


def moved(source: str, tree: ast.Module) -> MovedSource:
    """Return a source for after statements of ours; its text stays as it is where nothing goes to the top."""
    top, rest = to_the_top(tree.body)
    return MovedSource(top, unparse(ast.Module(rest, [])) if top else source.strip())


def to_the_top(statements: Sequence[ast.stmt], *, stars: bool = False) -> tuple[str, list[ast.stmt]]:
    """Return the imports that may stand at the top alone, as text, and the other statements.

    Args:
        statements: of a module.
        stars: the others will stand in a function, where no ``from x import *`` may be.
    """
    futures = [node for node in statements if _is_future(node)]
    lifted = futures + [node for node in statements if stars and _is_star(node)]
    return "".join(f"{unparse(node)}\n" for node in lifted), [n for n in statements if n not in lifted]


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_star(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
