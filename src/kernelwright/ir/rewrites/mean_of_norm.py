"""The mean of a group norm's output needs only means of its input: normalised values are not written."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    Reduction,
    args_of,
    aten,
    first_result,
    linear_reduction,
    only_first_result_used,
    shape,
    used_once,
)


def _propose(node: fx.Node) -> Proposal | None:
    found = linear_reduction(node)
    if found is None or not used_once(found.source):
        return None
    norm = first_result(found.source, aten.native_group_norm.default)
    rank = len(shape(found.source))
    if norm is None or not only_first_result_used(norm) or rank < 3:
        return None
    if not set(range(2, rank)) <= set(found.dims):
        return None
    why = (
        f"{node.name} averages {found.n_merged} normalised values per result: the mean of the input, "
        "scaled and shifted, gives the same"
    )
    return Proposal(why, lambda edit: _build(edit, node, norm, found), 0.5 * node_ms(norm) + node_ms(node))


def _build(edit: Editor, node: fx.Node, norm: fx.Node, found: Reduction) -> fx.Node:
    x: Any = args_of(norm)[0]
    _, weight, bias, batch, channels, _, n_groups, eps = args_of(norm)
    mean = aten.mean.dim
    per_channel = edit.call(mean, x, list(range(2, len(shape(x)))))
    grouped = edit.view(per_channel, [batch, n_groups, channels // n_groups])
    centre = edit.call(mean, grouped, [2], True)
    flat = edit.view(x, [batch, n_groups, -1])
    distance = edit.call(aten.sub.Tensor, flat, centre)
    variance = edit.call(mean, edit.call(aten.mul.Tensor, distance, distance), [2], True)
    scale = edit.call(aten.rsqrt.default, edit.call(aten.add.Tensor, variance, eps))
    shifted = edit.call(aten.sub.Tensor, grouped, centre)
    result = edit.view(edit.call(aten.mul.Tensor, shifted, scale), [batch, channels])
    if weight is not None:
        result = edit.call(aten.mul.Tensor, result, weight)
    if bias is not None:
        result = edit.call(aten.add.Tensor, result, bias)
    left = [d for d in found.dims if d < 2]
    result = edit.call(mean, result, left, True) if left else result
    if found.kind == "sum":
        result = edit.call(aten.mul.Tensor, result, found.n_merged)
    return edit.view(result, shape(node))


REWRITE = PatternRewrite("mean_of_norm", _propose)
