"""A scaling or shift of a layer's output moves into its weight and bias, where those are much smaller."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.affine import AffineStep, is_per_channel, read_step
from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    args_of,
    aten,
    is_call,
    numel,
    scalar_value,
    shape,
    used_once,
)

MUCH_SMALLER = 4
"""A weight is scaled only if the output has this many times its elements."""
LAYERS = (aten.convolution.default, aten.addmm.default, aten.mm.default)


def _propose(node: fx.Node) -> Proposal | None:
    step = read_step(node)
    if step is None or not is_foldable(step.source):
        return None
    layer = step.source
    scales = step.op in (aten.mul.Tensor, aten.div.Tensor)
    if not scales and is_call(layer, aten.mm.default):  # split_bias would take the bias away again
        return None
    if scales and numel(layer) < MUCH_SMALLER * numel(weight_of(layer)):
        return None
    is_number = scalar_value(step.other) is not None
    if not is_number and not is_per_channel(step.other, len(shape(layer)), shape(layer)[1]):
        return None

    def build(edit: Editor) -> fx.Node:
        factor, shift = _as_vectors(edit, step)
        return rebuilt(edit, layer, factor, shift)

    why = f"{node.name} scales or shifts the output of {layer.name}: its weight and bias can carry that"
    return Proposal(why, build, node_ms(node))


def is_foldable(layer: Any) -> bool:
    """Whether a node is a layer whose weight and bias can be changed for its only reader."""
    if not is_call(layer, *LAYERS) or layer.kwargs or not used_once(layer):
        return False
    if is_call(layer, aten.convolution.default):
        return not args_of(layer)[6] or args_of(layer)[8] == 1
    return not is_call(layer, aten.addmm.default) or shape(args_of(layer)[0]) == (shape(layer)[1],)


def weight_of(layer: fx.Node) -> fx.Node:
    """The weight of a convolution, the right operand of a product."""
    index = 1 if is_call(layer, aten.convolution.default) else -1
    weight: fx.Node = args_of(layer)[index]
    return weight


def _as_vectors(edit: Editor, step: AffineStep) -> tuple[Any, Any]:
    """Factor and shift as numbers or vectors of channels; None for the one that is not there."""
    value = scalar_value(step.other)
    amount: Any = value if value is not None else edit.view(step.other, [shape(step.source)[1]])
    if step.op is aten.mul.Tensor:
        return amount, None
    if step.op is aten.div.Tensor:
        inverse = 1.0 / amount if value else edit.call(aten.reciprocal.default, amount)
        return inverse, None
    if step.op is aten.sub.Tensor:
        return None, -amount if value is not None else edit.call(aten.neg.default, amount)
    return None, amount


def rebuilt(edit: Editor, layer: fx.Node, factor: Any, shift: Any) -> fx.Node:
    """Insert the layer with its output scaled by ``factor`` and shifted by ``shift``, per channel."""
    is_conv = is_call(layer, aten.convolution.default)
    bias: Any = args_of(layer)[2] if is_conv else args_of(layer)[0] if len(args_of(layer)) == 3 else None
    weight = weight_of(layer)
    if factor is not None:
        weight = edit.call(aten.mul.Tensor, weight, _along_weight(edit, layer, factor))
        bias = None if bias is None else edit.call(aten.mul.Tensor, bias, factor)
    if shift is not None:
        bias = _shifted(edit, layer, bias, shift)
    if is_conv:
        return edit.call(aten.convolution.default, args_of(layer)[0], weight, bias, *args_of(layer)[3:])
    left = args_of(layer)[-2]
    if bias is None:
        return edit.call(aten.mm.default, left, weight)
    return edit.call(aten.addmm.default, bias, left, weight)


def _along_weight(edit: Editor, layer: fx.Node, factor: Any) -> Any:
    """Shape a vector of channels so that it scales the weight's output channels."""
    if not isinstance(factor, fx.Node) or not is_call(layer, aten.convolution.default):
        return factor
    size = [1] * len(shape(layer))
    size[1 if args_of(layer)[6] else 0] = shape(layer)[1]
    return edit.view(factor, size)


def _shifted(edit: Editor, layer: fx.Node, bias: Any, shift: Any) -> fx.Node:
    if bias is not None:
        return edit.call(aten.add.Tensor, bias, shift)
    if isinstance(shift, fx.Node):
        return shift
    value = layer.meta["val"]
    return edit.call(
        aten.full.default, [shape(layer)[1]], shift, dtype=value.dtype, device=value.device, pin_memory=False
    )


REWRITE = PatternRewrite("fold_affine", _propose)
