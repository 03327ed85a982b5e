"""torch's tables of operators, kept small where torch.export would fill them with what changes nothing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._export import utils
from torch.export import exported_program

_FILL: Callable[[], None] | None = getattr(utils, "_materialize_cpp_cia_ops", None)
_OVERRIDE: Callable[..., Any] | None = getattr(exported_program, "_override_composite_implicit_decomp", None)
"""Torch's own functions; None in a torch that has others, where nothing is changed."""
_ASKS_FOR_GRADIENTS = frozenset({torch.ops.aten.linear.default})
"""Operators whose own C++ makes another graph where a weight requires gradients. They are registered as torch
does it: then they do not see whether one does."""


@contextmanager
def small_tables() -> Iterator[None]:
    """Spare a small capture the time that torch spends on operators that do not occur.

    ``run_decompositions`` asks per namespace, twice, which composite operators there are. They are looked up
    now, and not again while this lasts: nothing registers operators while a graph is decomposed. It also
    registers 22 functions for each of these 500. Here it does so only for operators that the table decomposes
    in another way than their own C++, or not at all.
    """
    fill, override = _FILL, _OVERRIDE
    if fill is None or override is None:
        yield
        return
    fill()
    utils._materialize_cpp_cia_ops = lambda: None
    exported_program._override_composite_implicit_decomp = partial(_override_few, override)
    try:
        yield
    finally:  # not what was there before: several threads may capture at once
        utils._materialize_cpp_cia_ops = fill
        exported_program._override_composite_implicit_decomp = override


def _override_few(override: Callable[..., Any], table: Mapping[Any, Callable[..., Any]]) -> Any:
    return override(
        {op: how for op, how in table.items() if op in _ASKS_FOR_GRADIENTS or not _is_own_cpp(how)}
    )


def _is_own_cpp(how: Callable[..., Any]) -> bool:
    return isinstance(how, partial) and how.func.__name__ == "_special_op_to_decompose_cia"
