"""The module-level names of a task file, read from its syntax tree without running it."""

import ast
from collections.abc import Iterator
from typing import Any


def bound_names(tree: ast.Module) -> set[str]:
    """Return every name that the module binds at top level; ``*`` stands for a star import."""
    return {name for statement in _top_level(tree.body) for name in _names(statement)}


def assigned_literals(tree: ast.Module) -> dict[str, Any]:
    """Return the values of top-level names that are assigned a literal; the last assignment wins.

    ``a = b = 3`` and ``h, w = 4, 5`` count too.
    """
    values: dict[str, Any] = {}
    for statement in tree.body:
        for name in assigned_names(statement):
            values.pop(name, None)
        for target, expression in _bindings(statement):
            try:
                values[target] = ast.literal_eval(expression)
            except (ValueError, TypeError):
                continue
    return values


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _matched(statement.target, statement.value)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _matched(target, statement.value)


def _matched(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif (
        isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    ):
        for part, part_value in zip(target.elts, value.elts, strict=True):
            yield from _matched(part, part_value)


def single_target(statement: ast.stmt) -> str | None:
    """Return the name that ``name = value`` or ``name: type = value`` binds, else None."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def assigned_names(statement: ast.stmt) -> set[str]:
    """Return every name that one assignment statement binds, none for other statements."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statement, ast.If | ast.Try | ast.With):
                yield from _top_level(getattr(statement, field, []))
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _top_level(handler.body)


def _names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in statement.names)
    else:
        yield from assigned_names(statement)
