"""Questions that rewrites ask about a node of a core ATen graph."""

import math
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import fx

aten = torch.ops.aten

VIEW_OPS = (
    aten.view.default, aten.permute.default, aten.unsqueeze.default, aten.squeeze.dims,
    aten.expand.default, aten.alias.default, aten.select.int, aten.slice.Tensor, aten.t.default,
    aten.transpose.int, aten.squeeze.dim, aten.squeeze.default, aten.reshape.default,
)  # fmt: skip
"""Operators whose result shares the memory of their first argument."""

CREATION_OPS = (
    aten.arange.start_step, aten.full.default, aten.scalar_tensor.default, aten.full_like.default,
)  # fmt: skip
CONSTANT = "constant"
"""Key of a placeholder's meta: the value of a literal with one element that forward creates."""
LARGEST_CONSTANT = 1 << 24
"""Elements of the largest constant expression that is worked out while looking for sites."""


def args_of(node: fx.Node) -> tuple[Any, ...]:
    """Positional arguments, whose types follow from the operator and not from fx."""
    return node.args


def target_of(node: fx.Node) -> Any:
    """The operator or function that a call node calls."""
    return node.target


def is_call(value: object, *targets: object) -> TypeGuard[fx.Node]:
    """Whether ``value`` is a node that calls one of these."""
    return isinstance(value, fx.Node) and value.op == "call_function" and value.target in targets


def is_tensor(value: object) -> TypeGuard[fx.Node]:
    """Whether ``value`` is a node that holds one tensor."""
    return isinstance(value, fx.Node) and isinstance(value.meta.get("val"), torch.Tensor)


def shape(node: fx.Node) -> tuple[int, ...]:
    """Sizes of the tensor that a node holds."""
    return tuple(int(n) for n in node.meta["val"].shape)


def numel(node: fx.Node) -> int:
    """Number of elements of the tensor that a node holds."""
    return math.prod(shape(node))


def is_float(node: object) -> TypeGuard[fx.Node]:
    """Whether ``node`` holds one floating-point tensor."""
    return is_tensor(node) and bool(node.meta["val"].is_floating_point())


def used_once(node: fx.Node) -> bool:
    """Whether one reader only, counting the graph's outputs, reads the node's value."""
    readers = list(node.users)
    return len(readers) == 1 and readers[0].all_input_nodes.count(node) == 1


def argument(node: fx.Node, index: int, default: Any = None, name: str | None = None) -> Any:
    """Return a positional argument, or the keyword of that name, or the default."""
    if len(args_of(node)) > index:
        return args_of(node)[index]
    return node.kwargs.get(name, default) if name is not None else default


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether ``value`` is a finite Python number and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def positive_dims(dims: Iterable[int], rank: int) -> tuple[int, ...]:
    """Count dims from the front, sorted."""
    return tuple(sorted({d % rank for d in dims})) if rank else ()


class Reduction(NamedTuple):
    """A sum or mean."""

    kind: str
    source: fx.Node
    dims: tuple[int, ...]
    keepdim: bool

    @property
    def n_merged(self) -> int:
        """How many elements go into one result."""
        return math.prod(shape(self.source)[d] for d in self.dims)


def linear_reduction(node: fx.Node) -> Reduction | None:
    """Read a sum or mean of a floating-point tensor in its own dtype."""
    kinds = {
        aten.sum.dim_IntList: "sum", aten.sum.default: "sum",
        aten.mean.dim: "mean", aten.mean.default: "mean",
    }  # fmt: skip
    kind = kinds.get(target_of(node)) if node.op == "call_function" else None
    if kind is None or not is_float(args_of(node)[0]) or node.kwargs.get("dtype") is not None:
        return None
    source = args_of(node)[0]
    rank = len(shape(source))
    dims = argument(node, 1, (), "dim") or tuple(range(rank))
    return Reduction(kind, source, positive_dims(dims, rank), bool(argument(node, 2, False, "keepdim")))


def only_first_result_used(node: fx.Node) -> bool:
    """Whether nobody reads any result but the first."""
    return all(is_call(u, operator.getitem) and args_of(u)[1] == 0 for u in node.users)


def first_result(node: fx.Node, *targets: object) -> fx.Node | None:
    """Return the call of which ``node`` is the first result, if its target is one of these."""
    if not is_call(node, operator.getitem) or args_of(node)[1] != 0:
        return None
    call = args_of(node)[0]
    return call if is_call(call, *targets) else None


def constant_value(node: fx.Node) -> torch.Tensor | None:
    """Work out an expression that reads no input, parameter or buffer, e.g. a triangular mask."""
    if not _is_closed(node, {}):
        return None
    values: dict[fx.Node, torch.Tensor] = {}

    def value(n: fx.Node) -> torch.Tensor:
        if n not in values and CONSTANT in n.meta:
            values[n] = n.meta[CONSTANT]
        if n not in values:
            args, kwargs = fx.map_arg((args_of(n), n.kwargs), value)
            values[n] = target_of(n)(*args, **kwargs)
        return values[n]

    return value(node)


def _is_closed(node: fx.Node, known: dict[fx.Node, bool]) -> bool:
    if CONSTANT in node.meta:
        return True
    if node not in known:
        calls = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
        small = is_tensor(node) and numel(node) <= LARGEST_CONSTANT
        inputs = node.all_input_nodes
        known[node] = (
            calls
            and small
            and (bool(inputs) or node.target in CREATION_OPS)
            and all(_is_closed(n, known) for n in inputs)
        )
    return known[node]


def scalar_value(node: object) -> float | None:
    """Return the value of a finite number, or of a constant expression with one element."""
    if is_number(node):
        return float(node)
    if not is_tensor(node) or numel(node) != 1:
        return None
    constant = constant_value(node)
    value = math.nan if constant is None else float(constant)
    return value if math.isfinite(value) else None


def skip_views(node: fx.Node, *more: object) -> fx.Node:
    """Follow operators that only rename elements one to one."""
    renaming = (aten.view.default, aten.alias.default, aten.unsqueeze.default, aten.squeeze.dims, *more)
    while is_call(node, *renaming):
        node = args_of(node)[0]
    return node
