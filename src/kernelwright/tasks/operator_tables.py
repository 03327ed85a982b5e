"""torch's tables of operators, kept small where torch.export would fill them with what changes nothing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch._export import utils
from torch.export import exported_program

Decompositions: TypeAlias = Mapping[Any, Callable[..., Any]]
"""Composite operator -> what takes it apart."""

_FILL: Callable[[], None] | None = getattr(utils, "_materialize_cpp_cia_ops", None)
"""Torch's own function; None in a torch that has another one, where nothing is changed."""
_OVERRIDE: Callable[[Decompositions], AbstractContextManager[None]] | None = getattr(
    exported_program, "_override_composite_implicit_decomp", None
)
"""The same."""

_ASKS_FOR_GRADIENTS = frozenset({torch.ops.aten.linear.default})
"""What is taken apart otherwise, in a product of copied rows, where it sees that a weight requires gradients.
With what torch registers it does not see that."""


@contextmanager
def small_tables() -> Iterator[None]:
    """Spare ``run_decompositions`` two thirds of the time that it needs for a small graph.

    It asks per namespace, twice, which composite operators there are: they are looked up now, and not again
    while this lasts. Nothing registers operators while a graph is taken apart. And it registers 22 functions
    for each of these 500, also where the table says no more than that torch shall do what it does anyway.
    """
    if _FILL is None or _OVERRIDE is None:
        yield
        return
    _FILL()
    utils._materialize_cpp_cia_ops = lambda: None
    exported_program._override_composite_implicit_decomp = _override  # type: ignore[assignment]
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = _FILL
        exported_program._override_composite_implicit_decomp = _OVERRIDE  # type: ignore[assignment]


def _override(decompositions: Decompositions) -> AbstractContextManager[None]:
    assert _OVERRIDE is not None
    kept = {op: how for op, how in decompositions.items() if op in _ASKS_FOR_GRADIENTS or not _is_usual(how)}
    return _OVERRIDE(kept)


def _is_usual(how: Callable[..., Any]) -> bool:
    """True for what torch's table has for an operator that is taken apart by its own C++."""
    return isinstance(how, partial) and how.func.__name__ == "_special_op_to_decompose_cia"
