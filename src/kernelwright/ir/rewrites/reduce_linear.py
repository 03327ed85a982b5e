"""Sums and means move through linear layers: reduce first, multiply less.

mean over out-features of (x W^T + b) is x mean(W) + mean(b): a matrix product becomes a matrix-vector
product. The same holds for rows, for means over the positions of a convolution, and through affine
steps and reshapes in between.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import fx

from kernelwright.ir.rewrites.convolution_mean import convolution_mean
from kernelwright.ir.rewrites.cost import bytes_ms, flops_ms, node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    args_of,
    argument,
    aten,
    is_call,
    is_float,
    is_number,
    linear_reduction,
    numel,
    shape,
    used_once,
)
from kernelwright.ir.rewrites.reshapes import reduced_groups


class Pushed(NamedTuple):
    """A way to the mean of a node over some dims, which stay as dims of size 1."""

    build: Callable[[Editor], fx.Node]
    ms: float
    """Modelled cost of what would be added."""
    saved_ms: float = 0.0
    """Modelled cost of the nodes that nobody would read any more."""
    anchors: tuple[str, ...] = ()
    """Matrix products and convolutions that become smaller."""


def _propose(node: fx.Node) -> Proposal | None:
    found = linear_reduction(node)
    if found is None or found.n_merged <= 1 or not used_once(found.source):
        return None
    pushed = push_mean(found.source, frozenset(found.dims))
    saved = pushed.saved_ms + node_ms(node) - pushed.ms
    if not pushed.anchors or saved < 0.2 * pushed.saved_ms:
        return None

    def build(edit: Editor) -> fx.Node:
        result = pushed.build(edit)
        if found.kind == "sum":
            result = edit.call(aten.mul.Tensor, result, found.n_merged)
        return edit.view(result, shape(node))

    anchors = ", ".join(pushed.anchors)
    why = (
        f"{found.kind} of {found.n_merged} elements per result commutes with {anchors}: about "
        f"{saved:.2g} of {pushed.saved_ms + node_ms(node):.2g} ms of work disappear"
    )
    return Proposal(why, build, saved)


def push_mean(node: fx.Node, dims: frozenset[int]) -> Pushed:
    """Find the cheapest known way to ``node.mean(dims, keepdim=True)``."""
    dims = frozenset(d for d in dims if shape(node)[d] != 1)
    if not dims:
        return Pushed(lambda edit: node, 0.0)
    rule = _RULES.get(node.target) if node.op == "call_function" and is_float(node) else None
    found = rule(node, dims) if rule is not None else None
    if found is None:
        return _plain_mean(node, dims)
    own = node_ms(node) if used_once(node) else 0.0
    return found._replace(saved_ms=found.saved_ms * bool(own or used_once(node)) + own)


def _plain_mean(node: fx.Node, dims: frozenset[int]) -> Pushed:
    return Pushed(
        lambda edit: edit.call(aten.mean.dim, node, sorted(dims), True),
        bytes_ms(numel(node) * node.meta["val"].element_size()),
    )


def _operand(value: Any, rank: int, dims: frozenset[int]) -> tuple[Any, frozenset[int]]:
    """Dims of a broadcast operand that vary along the dims of the result."""
    if not isinstance(value, fx.Node):
        return value, frozenset()
    missing = rank - len(shape(value))
    aligned = frozenset(d - missing for d in dims if d >= missing)
    return value, frozenset(d for d in aligned if shape(value)[d] != 1)


def _as_it_is(value: Any) -> Pushed:
    return Pushed(lambda edit: value, 0.0)


def _push_operands(node: fx.Node, parts: list[tuple[Any, frozenset[int]]]) -> Pushed:
    pushed = [push_mean(v, d) if isinstance(v, fx.Node) else _as_it_is(v) for v, d in parts]
    return Pushed(
        lambda edit: edit.call(node.target, *[p.build(edit) for p in pushed]),
        sum(p.ms for p in pushed),
        sum(p.saved_ms for p in pushed),
        tuple(name for p in pushed for name in p.anchors),
    )


def _add(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    if (
        node.kwargs
        or not all(is_number(a) or is_float(a) for a in args_of(node)[:2])
        or len(args_of(node)) > 2
    ):
        return None
    rank = len(shape(node))
    return _push_operands(node, [_operand(a, rank, dims) for a in args_of(node)])


def _mul(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    if not all(is_number(a) or is_float(a) for a in args_of(node)):
        return None
    rank = len(shape(node))
    parts = [_operand(a, rank, dims) for a in args_of(node)]
    varying = [d for _, d in parts if d]
    return _push_operands(node, parts) if len(varying) <= 1 else None


def _div(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    if node.kwargs or not all(is_number(a) or is_float(a) for a in args_of(node)):
        return None
    parts = [_operand(a, len(shape(node)), dims) for a in args_of(node)]
    return _push_operands(node, parts) if not parts[1][1] else None


def _neg(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    return _push_operands(node, [(args_of(node)[0], dims)])


def _mean(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    """A mean of a mean is one mean over both sets of dims, when the inner one keeps its dims."""
    inner = linear_reduction(node)
    if inner is None or inner.kind != "mean" or not inner.keepdim:
        return None
    return push_mean(inner.source, dims | frozenset(inner.dims))


def _permute(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    source: Any = args_of(node)[0]
    order = [d % len(shape(node)) for d in args_of(node)[1]]
    inner = push_mean(source, frozenset(order[d] for d in dims))
    return inner._replace(build=lambda edit: edit.call(aten.permute.default, inner.build(edit), order))


def _reshape(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    source: Any = args_of(node)[0]
    before = reduced_groups(shape(source), shape(node), dims)
    if before is None:
        return _split_rows(node, source, dims)
    inner = push_mean(source, before)
    size = [1 if d in dims else n for d, n in enumerate(shape(node))]
    return inner._replace(build=lambda edit: edit.view(inner.build(edit), size))


def _split_rows(node: fx.Node, product: fx.Node, dims: frozenset[int]) -> Pushed | None:
    """A linear layer on [batch, sequence, features] multiplies flat rows; reduce the rows before that."""
    size = shape(node)
    rank = len(size)
    if not is_call(product, aten.mm.default, aten.addmm.default) or not used_once(product):
        return None
    if product.kwargs or rank - 1 in dims or size[-1] != shape(product)[1]:
        return None
    *bias, left, right = args_of(product)
    if bias and len(shape(bias[0])) != 1:
        return None
    unfolded = [*size[:-1], shape(left)[1]]
    rows = _unfold(left, unfolded, dims)
    kept = [1 if d in dims else n for d, n in enumerate(size)]
    n_rows = math.prod(kept[:-1])

    def build(edit: Editor) -> fx.Node:
        flat = edit.view(rows.build(edit), [n_rows, unfolded[-1]])
        return edit.view(edit.call(product.target, *bias, flat, right), kept)

    ms = rows.ms + flops_ms(2 * n_rows * unfolded[-1] * size[-1])
    return Pushed(build, ms, rows.saved_ms + node_ms(product), (*rows.anchors, product.name))


def _unfold(left: fx.Node, size: list[int], dims: frozenset[int]) -> Pushed:
    """The mean of flat rows, seen in the shape that they had before they were flattened."""
    if is_call(left, aten.view.default) and shape(args_of(left)[0]) == tuple(size):
        return push_mean(args_of(left)[0], dims)
    return Pushed(
        lambda edit: edit.call(aten.mean.dim, edit.view(left, size), sorted(dims), True),
        bytes_ms(numel(left) * left.meta["val"].element_size()),
    )


def _matmul(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    """Rows of a product come from rows of its left operand, columns from columns of its right one."""
    left, right = args_of(node)[-2:]
    rank = len(shape(node))
    if rank == 3 and 0 in dims:
        return None  # the mean over a batch of products is not a smaller product
    parts = [(left, dims & {rank - 2}), (right, dims & {rank - 1})]
    if is_call(node, aten.addmm.default):
        if node.kwargs:
            return None
        parts.insert(0, _operand(args_of(node)[0], rank, dims))
    pushed = _push_operands(node, parts)
    flops = 2 * shape(left)[-1]
    for d, n in enumerate(shape(node)):
        flops *= 1 if d in dims else n
    return pushed._replace(ms=pushed.ms + flops_ms(flops), anchors=(*pushed.anchors, node.name))


def _convolution(node: fx.Node, dims: frozenset[int]) -> Pushed | None:
    if argument(node, 8) != 1:
        return None
    x: Any = args_of(node)[0]
    source = push_mean(x, dims & {0})
    found = convolution_mean(node, dims, source.build)
    if found is None:
        return None
    build, flops = found
    # Sums over positions read the input once more than the model of the source says.
    reading = bytes_ms(numel(x) * x.meta["val"].element_size())
    ms = source.ms + flops_ms(flops) + reading
    return Pushed(build, ms, source.saved_ms, (*source.anchors, node.name))


_RULES: dict[Any, Callable[[fx.Node, frozenset[int]], Pushed | None]] = {
    aten.add.Tensor: _add, aten.sub.Tensor: _add, aten.mul.Tensor: _mul, aten.div.Tensor: _div,
    aten.neg.default: _neg, aten.mean.dim: _mean, aten.permute.default: _permute,
    aten.view.default: _reshape, aten.unsqueeze.default: _reshape, aten.squeeze.dims: _reshape,
    aten.mm.default: _matmul, aten.addmm.default: _matmul, aten.bmm.default: _matmul,
    aten.convolution.default: _convolution,
}  # fmt: skip

REWRITE = PatternRewrite("reduce_linear", _propose)
