"""Finds our form of CUDA C++ in a candidate: three literals at the level of the module."""

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.open_parameters import folded, open_parameters
from kernelwright.core.plan import ParamValue
from kernelwright.targets.cuda.nvcc.form import DEFAULT_FLAGS, CudaSource
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt


def read_cuda_source(
    candidate: str, source: str = "CUDA_SOURCE", flags: str = "NVCC_FLAGS"
) -> CudaSource | NotBuilt | None:
    """Return the candidate's kernels and launches, None when it has no ``CUDA_SOURCE``.

    NotBuilt says in one line why what is there cannot be used: names that are no plain literals, a launch
    without a block, a flag that is not allowed, a candidate that is no Python.
    """
    try:
        literals = module_literals(candidate)
    except (SyntaxError, ValueError) as error:
        return NotBuilt(BuildStatus.NOT_THE_FORM, f"the candidate is no Python: {error}")
    if source not in literals:
        return None
    named = [name for name in (source, flags, "LAUNCHES") if name in literals]
    not_literal = [name for name in named if literals[name] is None]
    if not_literal:
        return NotBuilt(BuildStatus.NOT_THE_FORM, f"not a plain literal: {', '.join(not_literal)}")
    try:
        return CudaSource(
            text=literals[source],
            flags=literals.get(flags, DEFAULT_FLAGS),
            launches=literals.get("LAUNCHES", ()),
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return NotBuilt(BuildStatus.NOT_THE_FORM, f"{place}: {first['msg']}")


def module_literals(candidate: str) -> dict[str, Any]:
    """Return the values that plain assignments of a module give to names; None where it is no literal.

    Open parameters are put in.
    """
    found: dict[str, Any] = {}
    try:
        chosen = open_parameters(candidate)
    except UserError:
        chosen = {}
    for statement in ast.parse(candidate).body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = literal(value, chosen)
    return found


def literal(value: ast.expr, chosen: Mapping[str, tuple[ParamValue, ...]] = MappingProxyType({})) -> Any:
    """Return what a literal stands for, open parameters put in; None for anything else."""
    try:
        return folded(value, chosen)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
