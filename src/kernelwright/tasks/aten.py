"""Questions about nodes of a captured graph that several countings ask."""

import math
from typing import Any

import torch
from torch import fx

MATMULS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2)}
"""Matrix products -> positions of the two operands among the arguments."""

VIEWS = frozenset(
    (
        "view",
        "_unsafe_view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "unsqueeze",
        "squeeze",
        "expand",
        "alias",
        "detach",
        "lift_fresh_copy",
        "view_as_real",
        "view_as_complex",
    )
)
"""Operators that only rename or repeat elements."""

MAX_CONSTANT = 2**25
"""Constants of more elements than this are not evaluated."""


def op_name(node: fx.Node) -> str:
    """Return the ATen name without namespace and overload: ``mm``, ``getitem``, ``placeholder``."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target._schema.name).split("::")[1]
    if node.op == "call_function":
        return str(getattr(node.target, "__name__", node.target))
    return node.op


def numel(node: fx.Node) -> int:
    """Return the number of elements of a tensor-valued node, zero for other nodes."""
    value = node.meta.get("val")
    return int(value.numel()) if isinstance(value, torch.Tensor) else 0


def stored_elements(value: torch.Tensor) -> int:
    """Return how many different elements a tensor has: dimensions of stride zero repeat one."""
    sizes = (size for size, stride in zip(value.shape, value.stride(), strict=True) if stride)
    return math.prod(int(size) for size in sizes)


def source_of(node: fx.Node, through: frozenset[str] = VIEWS) -> fx.Node:
    """Follow views back to the node that computes or supplies the elements."""
    while op_name(node) in through and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


class Constants:
    """Values of nodes that no input, parameter or buffer reaches, such as triangular masks."""

    def __init__(self) -> None:
        self._values: dict[fx.Node, Any] = {}

    def value(self, node: fx.Node) -> Any:
        """Return the value of a constant node; None where it is not constant or too large."""
        if node not in self._values:
            self._values[node] = self._evaluate(node)
        return self._values[node]

    def true_share(self, node: fx.Node) -> float | None:
        """Return the share of true elements of a constant mask, None where it is unknown."""
        value = self.value(node)
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.bool or not value.numel():
            return None
        return float(value.float().mean())

    def _evaluate(self, node: fx.Node) -> Any:
        is_random = any(word in op_name(node) for word in ("rand", "bernoulli", "dropout", "normal"))
        if node.op != "call_function" or is_random or numel(node) > MAX_CONSTANT:
            return None
        if any(self.value(source) is None for source in node.all_input_nodes):
            return None
        args = fx.map_arg(node.args, self.value)
        kwargs = {**fx.map_arg(node.kwargs, self.value)}
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        return node.target(*args, **kwargs)  # type: ignore[operator]  # a call_function's target
