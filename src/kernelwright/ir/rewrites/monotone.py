"""Increasing functions move behind a maximum or minimum, where fewer elements are left."""

from typing import Any, NamedTuple

from torch import fx

from kernelwright.ir.rewrites.bounds import bounds
from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.merge_pools import MAX_POOLS
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    args_of,
    argument,
    aten,
    first_result,
    is_call,
    is_float,
    numel,
    only_first_result_used,
    positive_dims,
    scalar_value,
    shape,
    used_once,
)

ALWAYS = (
    aten.relu.default, aten.sigmoid.default, aten.tanh.default, aten.exp.default, aten.hardtanh.default,
    aten.clamp.default, aten.erf.default,
)  # fmt: skip
WHERE_DEFINED = {aten.sqrt.default: 0.0, aten.log.default: 0.0, aten.log1p.default: -1.0}
"""Increasing from that number on. Below it they are NaN, which a minimum shows and a maximum would hide."""


class Extreme(NamedTuple):
    """A maximum or minimum of which only the values are used."""

    call: fx.Node
    has_indices: bool
    dims: tuple[int, ...]


def _propose(node: fx.Node) -> Proposal | None:
    found = _extreme(node)
    if found is None:
        return _argmax(node)
    source: Any = args_of(found.call)[0]
    if not used_once(source) or numel(source) <= numel(node) or not _is_increasing(source, found.dims):
        return None
    if not _shows_nan(found.call, source):
        return None
    others: Any = args_of(source)[1:]

    def build(edit: Editor) -> fx.Node:
        call = edit.call(found.call.target, args_of(source)[0], *args_of(found.call)[1:])
        values = edit.item(call, 0) if found.has_indices else call
        return edit.call(source.target, values, *others, **source.kwargs)

    share = 1 - numel(node) / numel(source)
    why = f"{source.name} is increasing: done after {found.call.name} it sees {1 - share:.1%} of the elements"
    return Proposal(why, build, share * node_ms(source))


def _extreme(node: fx.Node) -> Extreme | None:
    call = first_result(node, aten.max.dim, aten.min.dim, *MAX_POOLS)
    has_indices = call is not None
    if call is None:
        call = node if is_call(node, aten.amax.default, aten.amin.default) else None
    elif not only_first_result_used(call):
        return None
    if call is None or call.kwargs:
        return None
    rank = len(shape(args_of(call)[0]))
    if call.target in MAX_POOLS:
        return Extreme(call, True, tuple(range(rank - MAX_POOLS[call.target], rank)))
    dims = argument(call, 1, ())
    chosen = positive_dims([dims] if isinstance(dims, int) else dims or range(rank), rank)
    # Operands that broadcast along the reduced dims must still do so, so these dims have to stay.
    return Extreme(call, has_indices, chosen if argument(call, 2, False) else (-1, *chosen))


def _is_increasing(node: fx.Node, dims: tuple[int, ...]) -> bool:
    """Whether a pointwise node is an increasing function of its first argument along ``dims``."""
    if not is_float(node) or not args_of(node) or not is_float(args_of(node)[0]):
        return False
    if shape(args_of(node)[0]) != shape(node):
        return False
    if is_call(node, aten.clamp.default):
        return not any(isinstance(a, fx.Node) for a in args_of(node)[1:])
    if is_call(node, *ALWAYS, *WHERE_DEFINED):
        return True
    if is_call(node, aten.leaky_relu.default):
        return bool(argument(node, 1, 0.01) >= 0)
    if is_call(node, aten.elu.default):
        return all(a >= 0 for a in args_of(node)[1:])
    if node.kwargs:
        return False
    if is_call(node, aten.mul.Tensor, aten.div.Tensor):
        factor = scalar_value(args_of(node)[1])
        return factor is not None and factor > 0
    return is_call(node, aten.add.Tensor, aten.sub.Tensor) and _is_constant_along(node, dims)


def _shows_nan(extreme: fx.Node, source: fx.Node) -> bool:
    """Whether the extreme is NaN where an element of the source becomes NaN without having been it."""
    lowest = next((low for target, low in WHERE_DEFINED.items() if is_call(source, target)), None)
    is_minimum = is_call(extreme, aten.min.dim, aten.amin.default)
    return lowest is None or is_minimum or bounds(args_of(source)[0]).low >= lowest


def _is_constant_along(node: fx.Node, dims: tuple[int, ...]) -> bool:
    """Whether what is added is the same everywhere along the dims that are reduced."""
    other = args_of(node)[1]
    if scalar_value(other) is not None:
        return True
    if not is_float(other) or dims[0] == -1:
        return False
    missing = len(shape(node)) - len(shape(other))
    return all(d < missing or shape(other)[d - missing] == 1 for d in dims)


def _argmax(node: fx.Node) -> Proposal | None:
    """The largest of a softmax stands where its argument is largest."""
    if not is_call(node, aten.argmax.default, aten.argmin.default):
        return None
    source: Any = args_of(node)[0]
    if not is_call(source, aten._softmax.default, aten._log_softmax.default) or not used_once(source):
        return None
    rank = len(shape(source))
    dim = argument(node, 1)
    if dim is None or dim % rank != args_of(source)[1] % rank:
        return None
    why = f"{node.name} does not need {source.name}: it keeps the order"
    return Proposal(
        why,
        lambda edit: edit.call(node.target, args_of(source)[0], *args_of(node)[1:], **node.kwargs),
        node_ms(source),
    )


REWRITE = PatternRewrite("monotone", _propose)
