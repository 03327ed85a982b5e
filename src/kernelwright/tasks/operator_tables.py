"""torch's tables of operators, filled once where torch.export would fill them dozens of times."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch._export import utils

_FILL: Callable[[], None] | None = getattr(utils, "_materialize_cpp_cia_ops", None)
"""Torch's own function; None in a torch that has another one, where nothing is changed."""


@contextmanager
def filled_once() -> Iterator[None]:
    """Look the composite operators of all namespaces up now, and not again while this lasts.

    ``run_decompositions`` asks for them per namespace, twice: a third of a small capture. Nothing registers
    operators while a graph is taken apart.
    """
    if _FILL is None:
        yield
        return
    _FILL()
    utils._materialize_cpp_cia_ops = lambda: None
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = _FILL
