"""Parameters that a candidate leaves open: ``TUNE = {"NAME": [default, …]}``, a literal in its source.

The source reads ``TUNE["NAME"][0]``. A closed source has one value for each name.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.plan import ParamValue

NAME = "TUNE"
_OF_NUMBERS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def open_parameters(source: str) -> dict[str, tuple[ParamValue, ...]]:
    """Return each parameter's values, the default first; empty where the source leaves nothing open.

    Raises:
        UserError: ``TUNE`` is there and is no such literal.
    """
    found = _statement(source)
    if found is None:
        return {}
    where = f"line {found.lineno}: {NAME}"
    try:
        value = ast.literal_eval(found.value)
    except ValueError:
        raise UserError(f"{where} must be a literal; write {NAME} = {{'NAME': [default, ...]}}") from None
    if not isinstance(value, dict) or not value:
        raise UserError(f"{where} must be a dictionary of lists; write {NAME} = {{'NAME': [default, ...]}}")
    for name, values in value.items():
        if not isinstance(name, str) or not isinstance(values, list) or not values:
            raise UserError(f"{where}[{name!r}] must be a list of values, the default first")
        wrong = [v for v in values if not isinstance(v, bool | int | float | str)]
        if wrong:
            raise UserError(f"{where}[{name!r}]: {wrong[0]!r} is no number, text or truth value")
    return {name: tuple(dict.fromkeys(values)) for name, values in value.items()}


def closed(source: str, point: Mapping[str, ParamValue]) -> str:
    """Return the source with the literal rewritten: one value a name, the default where the point has none.

    Raises:
        UserError: the point has a name or a value that the source does not leave open.
    """
    known, found = open_parameters(source), _statement(source)
    for name, value in point.items():
        if value not in known.get(name, ()):
            raise UserError(f"{NAME} leaves no {name} = {value!r} open")
    if found is None:
        return source
    chosen = {name: [point.get(name, values[0])] for name, values in known.items()}
    lines = [line.encode() for line in source.split("\n")]
    start, end = found.lineno - 1, (found.end_lineno or found.lineno) - 1
    head, tail = lines[start][: found.col_offset], lines[end][found.end_col_offset :]
    lines[start : end + 1] = [head + f"{NAME} = {chosen!r}".encode() + tail]
    return b"\n".join(lines).decode()


def folded(expression: ast.expr, values: Mapping[str, tuple[ParamValue, ...]]) -> Any:
    """Return the value of an expression of literals, ``TUNE["NAME"][0]``, f-strings, ``str``, + of texts, and
    + - * // of whole numbers.

    Raises:
        ValueError: it is anything else.
    """
    match expression:
        case ast.Subscript(ast.Subscript(ast.Name(id=name), ast.Constant(parameter)), ast.Constant(0)):
            if name == NAME and isinstance(parameter, str) and parameter in values:
                return values[parameter][0]
        case ast.JoinedStr(parts):
            return "".join(str(folded(part, values)) for part in parts)
        case ast.FormattedValue(value, -1, None):
            return str(folded(value, values))
        case ast.Tuple(items):
            return tuple(folded(item, values) for item in items)
        case ast.List(items):
            return [folded(item, values) for item in items]
        case ast.Dict(names, items) if None not in names:
            pairs = zip(filter(None, names), items, strict=True)
            return {folded(name, values): folded(item, values) for name, item in pairs}
        case ast.BinOp(left, operation, right):
            a, b = folded(left, values), folded(right, values)
            if isinstance(a, str) and isinstance(b, str) and isinstance(operation, ast.Add):
                return a + b
            if type(a) is type(b) is int:
                return _computed(a, operation, b)
        case ast.Call(ast.Name(id="str"), [value], []):
            return str(folded(value, values))
        case _:
            return ast.literal_eval(expression)
    raise ValueError("no literal")


def _computed(a: int, operation: ast.operator, b: int) -> int:
    compute = _OF_NUMBERS.get(type(operation))
    if compute is None or (b == 0 and isinstance(operation, ast.FloorDiv)):
        raise ValueError("no such arithmetic")
    return compute(a, b)


def _statement(source: str) -> ast.Assign | None:
    """Return the assignment at top level; None where there is none or the source is no Python."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id == NAME:
                return statement
    return None
