"""Read scaling and shifting by numbers or per-channel vectors."""

from typing import Any, NamedTuple

from torch import fx

from kernelwright.ir.rewrites.reading import args_of, aten, is_call, is_float, scalar_value, shape

ARITHMETIC = (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor)


class AffineStep(NamedTuple):
    """``source (op) other`` where ``other`` is a number or a broadcast tensor."""

    op: Any
    source: fx.Node
    other: Any


def read_step(node: Any) -> AffineStep | None:
    """Read a pointwise arithmetic node whose source has the full shape; products and sums commute."""
    if not is_call(node, *ARITHMETIC) or node.kwargs or not is_float(node):
        return None
    one, other = args_of(node)
    if is_float(one) and shape(one) == shape(node):
        return AffineStep(node.target, one, other)
    if is_call(node, aten.mul.Tensor, aten.add.Tensor) and is_float(other) and shape(other) == shape(node):
        return AffineStep(node.target, other, one)
    return None


def read_scalar_affine(node: Any) -> tuple[fx.Node, float, float] | None:
    """Read ``source * a + b`` with numbers a and b in one operation."""
    if is_call(node, aten.neg.default):
        return args_of(node)[0], -1.0, 0.0
    if is_call(node, aten.add.Tensor) and args_of(node)[0] is args_of(node)[1] and not node.kwargs:
        return args_of(node)[0], 2.0, 0.0
    step = read_step(node)
    if step is None:
        return None
    value = scalar_value(step.other)
    if value is None or (step.op is aten.div.Tensor and value == 0.0):
        return None
    scale = {aten.mul.Tensor: value, aten.div.Tensor: 1.0 / value if value else 0.0}.get(step.op, 1.0)
    shift = {aten.add.Tensor: value, aten.sub.Tensor: -value}.get(step.op, 0.0)
    return step.source, scale, shift


def is_per_channel(other: Any, rank: int, channels: int) -> bool:
    """Whether a tensor broadcasts to [batch, channels, ...] with one value per channel."""
    if not is_float(other):
        return False
    size = (1,) * (rank - len(shape(other))) + shape(other)
    return size[1] == channels and all(n == 1 for d, n in enumerate(size) if d != 1)
