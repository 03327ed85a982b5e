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
"""Operators whose own C++ makes another graph where a weight requires gradients. They are registered as torch
does it: then they do not see whether one does."""


@contextmanager
def small_tables() -> Iterator[None]:
    """Spare a small capture more than half of its time, which torch spends on operators that do not occur.

    ``run_decompositions`` asks per namespace, twice, which composite operators there are. They are looked up
    now, and not again while this lasts: nothing registers operators while a graph is taken apart. It also
    registers 22 functions for each of these 500. Here it does so only for operators that the table takes
    apart in another way than their own C++, or not at all.
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
