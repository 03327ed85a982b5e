"""What of a source runs: its program, without comments, docstrings and layout."""

import ast
import io
import re
import tokenize
from functools import lru_cache

from kernelwright.core.cpp_source import without_comments
from kernelwright.core.printing import unparse

NATIVE_SOURCES = ("CPP_SOURCE", "CUDA_SOURCE")
"""Module-level names whose text a compiler reads; comments in it are comments too."""
_READS_ITSELF = re.compile(
    r"__doc__|getdoc|getsource|getcomments|linecache|doctest|f_lineno|co_firstlineno|co_lines|tb_lineno"
)
_TYPE_COMMENT = re.compile(r"#[ \t]*type:[ \t]*(?!ignore)")
"""TorchScript reads these."""
MAX_SOURCE_BYTES = 1_000_000
"""Longest source that is parsed. A parser takes 600 times the memory of the text."""
MAX_TOKENS = 50_000
"""Most tokens of a source that is taken apart; a string is one, however long. This process prints and
compares the parsed tree, which takes far more time and memory than the text."""
_BLANK = " \t\r\n\f"
"""What Python's parser passes over. ``str.strip`` takes away more, which may make a program of no program."""
_REMEMBERED = 64
"""How many programs are kept: a run reads each of its candidates from the store several times."""
_FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError)


@lru_cache(maxsize=_REMEMBERED)
def normalise(source: str) -> str:
    """Return the program of a source: the text that runs, the same for all ways to lay it out and explain it.

    Comments, docstrings and other strings that are statements go, in C++ and CUDA texts the comments;
    quotes, brackets, line breaks and indentation become those of ``printing.unparse``, the same for
    every Python. The program of a program is itself. A source keeps its text, but for line breaks before it
    and blank space behind it, where it is no Python, where it reads its own comments, docstrings or line
    numbers, where Python cannot print what it has read, or where it has more than ``MAX_SOURCE_BYTES`` or
    ``MAX_TOKENS``.
    """
    as_written = source.lstrip("\r\n").rstrip(_BLANK) + "\n"  # indented, it is no Python and stays none
    if len(source) > MAX_SOURCE_BYTES or _has_too_many_tokens(source):
        return as_written
    if _TYPE_COMMENT.search(source) and "jit" in source:
        return as_written
    try:
        tree = ast.parse(source)
        _strip_strings(tree)
        _strip_native_comments(tree)
        program = unparse(tree) + "\n"
        is_same = ast.dump(ast.parse(program)) == ast.dump(tree)
    except _FAILURES:
        return as_written
    return program if is_same and not _READS_ITSELF.search(program) else as_written


def _has_too_many_tokens(source: str) -> bool:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    try:
        return any(number >= MAX_TOKENS for number, _ in enumerate(tokens))
    except (tokenize.TokenError, *_FAILURES):
        return False  # the parser stops there too


def _strip_strings(tree: ast.Module) -> None:
    """Remove every statement that is nothing but a string; a block that is empty then passes."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            kept = [statement for statement in block if not _is_string(statement)]
            setattr(node, name, kept or ([] if node is tree else [ast.Pass()]))


def _is_string(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _strip_native_comments(tree: ast.Module) -> None:
    """Remove the comments of C++ and CUDA texts that are only handed on whole, never taken apart."""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Name) or target.id not in NATIVE_SOURCES:
            continue
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and _is_whole(tree, target.id):
            statement.value = ast.Constant(without_comments(value.value))


def _is_whole(tree: ast.Module, name: str) -> bool:
    """Tell whether a text is bound once, and read only as an argument, an element or to be encoded."""
    uses = sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))
    handed_on = sum(_hands_on(node, name) for node in ast.walk(tree))
    return uses == 1 + handed_on


def _hands_on(node: ast.AST, name: str) -> int:
    """Return how often a node passes the text on as it is."""
    if isinstance(node, ast.Call):
        if re.match(r"re\.|\w*(sub|split|find)", ast.unparse(node.func)):
            return 0
        given: list[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.List | ast.Tuple):
        given = list(node.elts)
    elif isinstance(node, ast.Attribute) and node.attr == "encode":
        given = [node.value]
    else:
        return 0
    return sum(isinstance(item, ast.Name) and item.id == name for item in given)
