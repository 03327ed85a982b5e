"""Batch normalisation with fixed statistics scales and shifts channels: the layer before it can do that."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.fold_affine import MUCH_SMALLER, is_foldable, rebuilt, weight_of
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, first_result, numel, only_first_result_used


def _propose(node: fx.Node) -> Proposal | None:
    call = first_result(node, aten._native_batch_norm_legit_no_training.default)
    if call is None or not only_first_result_used(call):
        return None
    layer: Any = args_of(call)[0]
    if not is_foldable(layer) or numel(layer) < MUCH_SMALLER * numel(weight_of(layer)):
        return None

    def build(edit: Editor) -> fx.Node:
        _, weight, bias, mean, variance, _, eps = args_of(call)
        guarded = edit.call(aten.add.Tensor, variance, eps)
        factor = edit.call(aten.rsqrt.default, guarded)
        if weight is not None:
            factor = edit.call(aten.mul.Tensor, factor, weight)
        shift = edit.call(aten.neg.default, edit.call(aten.mul.Tensor, mean, factor))
        if bias is not None:
            shift = edit.call(aten.add.Tensor, shift, bias)
        return rebuilt(edit, layer, factor, shift)

    why = f"{call.name} has fixed statistics: {layer.name} can carry its scale and shift"
    return Proposal(why, build, node_ms(call))


REWRITE = PatternRewrite("fold_batch_norm", _propose)
