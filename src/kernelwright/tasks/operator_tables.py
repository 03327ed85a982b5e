"""torch's tables of operators, filled once where torch.export would fill them dozens of times."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch._export import utils


@contextmanager
def filled_once() -> Iterator[None]:
    """Look the composite operators of all namespaces up now, and not again while this lasts.

    ``run_decompositions`` asks for them per namespace, twice: a third of a small capture. Nothing registers
    operators while a graph is taken apart.
    """
    fill = utils._materialize_cpp_cia_ops
    fill()
    utils._materialize_cpp_cia_ops = lambda: None
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = fill
