"""Workloads as words of a command line: ``NAME:GLOBAL=VALUE,...`` with Python literals as values."""

import ast

from pydantic import ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.task import Literal_, Workload


def parse_workload(text: str) -> Workload:
    """Parse ``name:global=value,...`` with Python literals as values, or a workload as JSON.

    Raises:
        UserError: it is neither.

    Example:
        >>> parse_workload("small:batch=8,size=(3, 4)").overrides
        {'batch': 8, 'size': (3, 4)}
    """
    name, colon, bound = text.partition(":")
    problem = f"--workload {text!r}: expected NAME:GLOBAL=VALUE,... such as small:batch_size=8"
    if text.startswith("{"):
        try:
            return Workload.model_validate_json(text)
        except ValidationError:
            raise UserError(problem) from None
    if not name.strip() or (colon and not bound.strip()):
        raise UserError(problem)
    try:
        call = ast.parse(f"_({bound})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("not assignments")
        overrides = {str(word.arg): _literal(word.value) for word in call.keywords if word.arg is not None}
        if len(overrides) != len(call.keywords):
            raise ValueError("not plain names")
    except (SyntaxError, ValueError) as error:
        raise UserError(problem) from error
    return Workload(name=name.strip(), overrides=overrides)


def _literal(node: ast.expr) -> Literal_:
    value = ast.literal_eval(node)
    if isinstance(value, list | tuple):
        return tuple(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} is not a number, text or a tuple of them")


def workload_word(workload: Workload) -> str:
    """Return the word that ``parse_workload`` makes the same workload of; as JSON where nothing else does."""
    bound = ",".join(f"{name}={value!r}" for name, value in workload.overrides.items())
    plain = f"{workload.name}:{bound}" if bound else workload.name
    try:
        is_same = _alike(parse_workload(plain), workload)
    except UserError:
        is_same = False
    return plain if is_same else workload.model_dump_json()


def _alike(one: Workload, other: Workload) -> bool:
    """Tell whether two are the same, ``1`` and ``True`` and ``1.0`` apart."""
    return repr(one) == repr(other)
