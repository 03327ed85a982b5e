"""Operations that cannot change their operand, or whose result the graph alone fixes.

Reductions and softmax over one element, clamps of values already in range, copies, neutral scalars,
clamps in a row, double negation, dropout that drops nothing.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from kernelwright.ir.rewrites.bounds import Range, bounds, clamp_limits
from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.logsumexp import find_logsumexp
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    args_of,
    argument,
    aten,
    first_result,
    is_call,
    is_float,
    is_number,
    is_tensor,
    linear_reduction,
    numel,
    only_first_result_used,
    positive_dims,
    shape,
    target_of,
    used_once,
)

Build = Callable[[Editor], fx.Node]


def _propose(node: fx.Node) -> Proposal | None:
    for rule in _RULES:
        found = rule(node)
        if found is not None:
            why, build = found
            return Proposal(f"{node.name}: {why}", build, node_ms(node))
    return None


def _same(node: fx.Node, other: Any) -> Build | None:
    """Use ``other`` in place of ``node`` if they are tensors of one type, reshaped if need be."""
    if not is_tensor(other) or other.meta["val"].dtype != node.meta["val"].dtype:
        return None
    if numel(other) != numel(node):
        return None
    return lambda edit: edit.view(other, shape(node))


def _neutral_scalar(node: fx.Node) -> tuple[str, Build] | None:
    neutral = {aten.mul.Tensor: 1, aten.div.Tensor: 1, aten.add.Tensor: 0, aten.sub.Tensor: 0}
    if not is_call(node, *neutral) or node.kwargs:
        return None
    one, other = args_of(node)
    if not (is_number(other) and other == neutral[target_of(node)]):
        return None
    build = _same(node, one)
    return (f"{other} is neutral", build) if build else None


def _copy(node: fx.Node) -> tuple[str, Build] | None:
    if not is_call(node, aten.clone.default, aten.alias.default, aten.expand.default, aten.view.default):
        return None
    source: Any = args_of(node)[0]
    if shape(source) != shape(node) or source.meta["val"].dtype != node.meta["val"].dtype:
        return None
    wanted = node.kwargs.get("memory_format")
    if wanted not in (None, torch.preserve_format) and not source.meta["val"].is_contiguous(
        memory_format=wanted
    ):
        return None
    return "a copy or reshape that changes nothing", lambda edit: source


def _double(node: fx.Node) -> tuple[str, Build] | None:
    inner: Any = args_of(node)[0] if args_of(node) else None
    if is_call(node, aten.neg.default) and is_call(inner, aten.neg.default):
        return "negated twice", lambda edit: args_of(inner)[0]
    if is_call(node, aten.permute.default) and is_call(inner, aten.permute.default):
        rank = len(shape(node))
        outer_order, inner_order = ([d % rank for d in args_of(n)[1]] for n in (node, inner))
        order = [inner_order[d] for d in outer_order]
        if order == list(range(rank)):
            return "permuted there and back", lambda edit: args_of(inner)[0]
        return "two permutations are one", lambda edit: edit.call(node.target, args_of(inner)[0], order)
    if is_call(node, aten.view.default) and is_call(inner, aten.view.default):
        source: Any = args_of(inner)[0]
        if _viewable(source, shape(node)):
            return "two views are one", lambda edit: edit.view(source, shape(node))
    return None


def _viewable(source: fx.Node, size: tuple[int, ...]) -> bool:
    return bool(source.meta["val"].is_contiguous()) and numel(source) == math.prod(size)


def _in_range(node: fx.Node) -> tuple[str, Build] | None:
    """A clamp, absolute value or leaky relu of values that it leaves alone."""
    if not is_float(node) or not args_of(node):
        return None
    limits = clamp_limits(node)
    if limits is None and is_call(node, aten.abs.default, aten.leaky_relu.default):
        limits = Range(0.0, math.inf)
    if limits is None and is_call(node, aten.elu.default) and all(a == 1 for a in args_of(node)[2:]):
        limits = Range(0.0, math.inf)
    if limits is None:
        return None
    low, high = bounds(args_of(node)[0])
    build = _same(node, args_of(node)[0])
    if build and limits.low <= low and high <= limits.high:
        return f"its operand lies in [{low:g}, {high:g}] anyway", build
    return None


def _clamps(node: fx.Node) -> tuple[str, Build] | None:
    outer = clamp_limits(node)
    inner_node: Any = args_of(node)[0] if args_of(node) else None
    inner = clamp_limits(inner_node)
    if outer is None or inner is None or not used_once(inner_node):
        return None
    if outer.low > outer.high or inner.low > inner.high:
        return None
    low, high = (min(max(v, outer.low), outer.high) for v in inner)
    ends = [None if math.isinf(v) else v for v in (low, high)]
    source: Any = args_of(inner_node)[0]
    return f"two clamps are one to [{low:g}, {high:g}]", lambda edit: edit.call(
        aten.clamp.default, source, *ends
    )


def _fixed_value(node: fx.Node) -> tuple[str, Build] | None:
    """The range of the values is one number, e.g. clamp(minimum(x, 0), 0, 1)."""
    if not is_float(node) or not any(is_float(n) and numel(n) > 1 for n in node.all_input_nodes):
        return None
    low, high = bounds(node)
    if low != high:
        return None
    return f"its value is {low:g} for every input", lambda edit: _full(edit, node, low)


def _full(edit: Editor, node: fx.Node, value: float) -> fx.Node:
    tensor = node.meta["val"]
    return edit.call(
        aten.full.default, list(tensor.shape), value, dtype=tensor.dtype, device=tensor.device,
        pin_memory=False,
    )  # fmt: skip


def _where_finite(edit: Editor, node: fx.Node, value: float) -> fx.Node:
    """Return ``x - x + value``: NaN where x is NaN or infinite, as the softmax is."""
    x = args_of(node)[0]
    return edit.call(aten.add.Tensor, edit.call(aten.sub.Tensor, x, x), value)


def _one_element(node: fx.Node) -> tuple[str, Build] | None:
    """A reduction or softmax over dims of size 1."""
    if is_call(node, aten._softmax.default, aten._log_softmax.default):
        if shape(node) and shape(node)[args_of(node)[1]] == 1:
            value = 1.0 if is_call(node, aten._softmax.default) else 0.0
            return f"over one finite element it is {value:g}", lambda edit: _where_finite(edit, node, value)
        return None
    source = _reduced_over_one(node)
    build = _same(node, source) if source is not None else None
    return ("a reduction over one element", build) if build else None


def _reduced_over_one(node: fx.Node) -> fx.Node | None:
    found = linear_reduction(node)
    if found is not None:
        # The sum inside a logsumexp stays until the whole of it is recognised.
        inside = is_call(found.source, aten.exp.default) and any(
            is_call(u, aten.log.default) for u in node.users
        )
        return found.source if found.n_merged == 1 and not inside else None
    logsumexp = find_logsumexp(node)
    if logsumexp is not None:
        return logsumexp.source if logsumexp.n_merged == 1 else None
    call = first_result(node, aten.max.dim, aten.min.dim)
    if call is None:
        call = node if is_call(node, aten.amax.default, aten.amin.default) else None
    elif not only_first_result_used(call):
        return None
    if call is None:
        return None
    source: Any = args_of(call)[0]
    dims = argument(call, 1, ())
    rank = len(shape(source))
    chosen = positive_dims([dims] if isinstance(dims, int) else dims or range(rank), rank)
    return source if all(shape(source)[d] == 1 for d in chosen) else None


def _dropout(node: fx.Node) -> tuple[str, Build] | None:
    call = first_result(node, aten.native_dropout.default)
    if call is None or not only_first_result_used(call):
        return None
    source, probability, train = args_of(call)
    if probability == 0.0 or train is False:
        return "dropout that drops nothing", lambda edit: source
    return None


_RULES = (
    _fixed_value, _one_element, _neutral_scalar, _copy, _double, _in_range, _clamps, _dropout,
)  # fmt: skip
REWRITE = PatternRewrite("simplify", _propose)
