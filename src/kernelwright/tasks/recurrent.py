"""Shapes of recurrent operators without computing their steps.

``torch.export`` finds the shapes of an operator that stays whole by running its decomposition on fake
tensors: six layers over 512 steps take it two minutes. The shapes follow from the arguments alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

RECURRENT = (
    torch.ops.aten.lstm.input,
    torch.ops.aten.gru.input,
    torch.ops.aten.rnn_tanh.input,
    torch.ops.aten.rnn_relu.input,
)
_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd, DispatchKey.Meta)


@contextmanager
def shapes_only() -> Iterator[None]:
    """While it lasts, recurrent operators on fake tensors make empty results at once."""
    held = {op: dict(op.py_kernels) for op in RECURRENT}
    table = {op: decomposition_table[op] for op in RECURRENT if op in decomposition_table}
    try:
        for op, kernels in held.items():
            op.py_kernels.update({key: _empty_or(kernels[key]) for key in _KEYS if key in kernels})
            op._dispatch_cache.clear()
        for op, kernel in table.items():
            decomposition_table[op] = _empty_or(kernel)
        yield
    finally:
        for op, kernels in held.items():
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
        for op, kernel in table.items():
            decomposition_table[op] = kernel


def _empty_or(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: torch.Tensor, hidden: Any, *rest: Any) -> Any:
        is_traced = isinstance(x, FakeTensor | FunctionalTensor)
        return _results(x, hidden, *rest) if is_traced else kernel(x, hidden, *rest)

    return call


def _results(
    x: torch.Tensor,
    hidden: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    states = list(hidden) if isinstance(hidden, list | tuple) else [hidden]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    first, second = x.shape[:2]
    if batch_first:
        out = x.new_empty((second, first, width)).transpose(0, 1)
    else:
        out = x.new_empty((first, second, width))
    return out, *(x.new_empty(state.shape) for state in states)
