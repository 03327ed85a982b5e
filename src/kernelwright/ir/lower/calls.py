"""Prints graph nodes as calls of torch, and computes the memory layout of their results."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from kernelwright.ir.lower.translate import TranslatedNode, helper_source
from kernelwright.ir.program import BufferRef, Call, CallArg

RESHAPING = frozenset(
    [
        "view.default", "permute.default", "t.default", "transpose.int", "unsqueeze.default",
        "squeeze.default", "squeeze.dim", "squeeze.dims",
    ]
)  # fmt: skip
"""Views that show every element once."""


def make_call(step: TranslatedNode, buffer_of: Callable[[fx.Node], str]) -> Call:
    """Return the call of a step; ``buffer_of`` names the buffer of each node that it reads."""
    node = step.node
    args = tuple(_argument(arg, buffer_of) for arg in node.args)
    kwargs = tuple((key, _argument(arg, buffer_of)) for key, arg in node.kwargs.items())
    results = tuple(None if r is None else r.buffer for r in step.results)
    target = str(node.target)
    helper = helper_source(node)
    if helper is not None:
        target = node.target.__name__  # type: ignore[union-attr]  # a function
    elif isinstance(node.target, torch._ops.OpOverload):
        target = f"torch.ops.{node.target}"
    is_list = isinstance(node.meta["val"], list | tuple)
    return Call(node.name, target, args, results, kwargs, helper, step.is_view, is_list)


def _argument(arg: Any, buffer_of: Callable[[fx.Node], str]) -> CallArg:
    if isinstance(arg, fx.Node):
        return BufferRef(buffer_of(arg))
    if isinstance(arg, list | tuple):
        return tuple(_argument(item, buffer_of) for item in arg)
    if isinstance(arg, str):
        return repr(arg)
    if isinstance(arg, float) and not math.isfinite(arg):
        return f"float('{arg}')"
    if arg is None or isinstance(arg, bool | int | float):
        return arg
    if isinstance(arg, torch.device):
        return f"torch.device('{arg}')"
    return str(arg)  # torch.float32, torch.strided, torch.contiguous_format


def result_strides(
    step: TranslatedNode, actual: Mapping[str, tuple[int, ...]]
) -> list[tuple[int, ...] | None]:
    """Return the strides of a step's results, given the real strides of the tensors it reads.

    Capture recorded strides for the tensors of the original graph; generated kernels write row-major
    ones, so a layout that follows its input is worked out again on fake tensors.
    """
    recorded = [None if r is None else r.stride for r in step.results]
    reads = step.node.all_input_nodes
    if all(_same_layout(n.meta["val"], actual[n.name]) for n in reads if n.name in actual):
        return recorded
    results = pytree.tree_leaves(_run_fake(step.node, actual))
    strides = [tuple(r.stride()) if isinstance(r, torch.Tensor) else None for r in results]
    return strides if len(strides) == len(recorded) else recorded


def _same_layout(value: torch.Tensor, stride: tuple[int, ...]) -> bool:
    return all(n == 1 or a == b for n, a, b in zip(value.shape, value.stride(), stride, strict=True))


def _run_fake(node: fx.Node, actual: Mapping[str, tuple[int, ...]]) -> Any:
    mode = next(
        (n.meta["val"].fake_mode for n in node.all_input_nodes if hasattr(n.meta["val"], "fake_mode")), None
    )
    if mode is None:
        raise ValueError("no fake tensors")

    def stand_in(source: fx.Node) -> Any:
        value = source.meta["val"]
        if source.name not in actual:
            return value
        return torch.empty_strided(value.shape, actual[source.name], dtype=value.dtype, device=value.device)

    with mode:
        args = fx.map_arg(node.args, stand_in)
        kwargs = fx.map_arg(node.kwargs, stand_in)
        return node.target(*args, **kwargs)  # type: ignore[operator]  # an operator or a helper


def relay(step: TranslatedNode, actual: Mapping[str, tuple[int, ...]]) -> None:
    """Give a step's results the strides that they will have; a view that cannot be one becomes a copy."""
    try:
        strides = result_strides(step, actual)
    except (RuntimeError, ValueError):
        if not step.is_view:
            return
        step.is_view = False
        step.node = _reshaped(step.node)
        return
    for result, stride in zip(step.results, strides, strict=True):
        if result is not None and stride is not None:
            result.stride = stride


def copying_node(node: fx.Node, name: str) -> fx.Node:
    """Return a node outside the graph that copies ``node`` to fresh, row-major memory."""
    made = fx.Node(node.graph, name, "call_function", torch.ops.aten.clone.default, (), {}, node.type)
    made.meta = node.meta
    made._args = (node,)
    made._kwargs = {"memory_format": torch.contiguous_format}
    made._input_nodes = {node: None}
    return made


def _reshaped(node: fx.Node) -> fx.Node:
    """Return a node outside the graph that reshapes by copying what ``node`` would view."""
    stand_in = fx.Node(
        node.graph, node.name, "call_function", torch.ops.aten.reshape.default, (), {}, node.type
    )
    stand_in.meta = node.meta
    stand_in._args = node._args
    stand_in._input_nodes = dict(node._input_nodes)
    return stand_in
