"""The module-level names of a task file, read from its syntax tree without running it."""

import ast
from collections.abc import Iterator
from typing import Any


def bound_names(tree: ast.Module) -> set[str]:
    """Return every name that the module binds at top level; ``*`` stands for a star import."""
    return {name for statement in _top_level(tree.body) for name in _names(statement)}


def assigned_literals(tree: ast.Module) -> dict[str, Any]:
    """Return the values of top-level assignments of a literal to a single name; the last one wins."""
    values: dict[str, Any] = {}
    for statement in tree.body:
        target = single_target(statement)
        if target is None:
            continue
        try:
            values[target] = ast.literal_eval(statement.value)  # type: ignore[attr-defined]
        except (ValueError, TypeError):
            values.pop(target, None)
    return values


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
