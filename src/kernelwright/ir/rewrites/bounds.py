"""What range a node's values lie in, whatever the inputs."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import fx

from kernelwright.ir.rewrites.reading import (
    VIEW_OPS,
    args_of,
    argument,
    aten,
    first_result,
    is_call,
    is_float,
    is_number,
    scalar_value,
)

INF = math.inf
DEEPEST = 12
"""How far back a range is followed."""


class Range(NamedTuple):
    """All values lie between these, NaN aside."""

    low: float = -INF
    high: float = INF


ANY = Range()


def bounds(node: Any, depth: int = DEEPEST) -> Range:
    """Return the range that the graph alone proves."""
    if is_number(node):
        return Range(float(node), float(node))
    if depth == 0 or not is_float(node):
        return ANY
    value = scalar_value(node)
    if value is not None:
        return Range(value, value)
    if node.op != "call_function":
        return ANY
    picked = first_result(
        node, aten.max.dim, aten.min.dim, aten.max_pool2d_with_indices.default,
        aten.max_pool3d_with_indices.default,
    )  # fmt: skip
    if picked is not None:
        return bounds(args_of(picked)[0], depth - 1)
    rule = _RULES.get(node.target)
    return rule(node, depth - 1) if rule is not None else ANY


def _of(node: fx.Node, depth: int) -> Range:
    return bounds(args_of(node)[0], depth)


def _fixed(low: float, high: float) -> Callable[[fx.Node, int], Range]:
    return lambda node, depth: Range(low, high)


def _relu(node: fx.Node, depth: int) -> Range:
    low, high = _of(node, depth)
    return Range(max(low, 0.0), max(high, 0.0))


def _clamp(node: fx.Node, depth: int) -> Range:
    limits = clamp_limits(node)
    if limits is None:
        return ANY
    low, high = _of(node, depth)
    return Range(min(max(low, limits.low), limits.high), min(max(high, limits.low), limits.high))


def clamp_limits(node: Any) -> Range | None:
    """Read relu, hardtanh and clamp by numbers as one operation; None for anything else."""
    if is_call(node, aten.relu.default):
        return Range(0.0, INF)
    if is_call(node, aten.hardtanh.default):
        return Range(float(argument(node, 1, -1.0)), float(argument(node, 2, 1.0)))
    if not is_call(node, aten.clamp.default):
        return None
    low, high = argument(node, 1, None, "min"), argument(node, 2, None, "max")
    if not all(v is None or is_number(v) for v in (low, high)):
        return None
    return Range(-INF if low is None else float(low), INF if high is None else float(high))


def _leaky(node: fx.Node, depth: int) -> Range:
    low, high = _of(node, depth)
    slope = argument(node, 1, 0.01)
    if slope < 0:
        return ANY
    return Range(*(v if v >= 0 else v * slope if v != -INF or slope else 0.0 for v in (low, high)))


def _gelu(node: fx.Node, depth: int) -> Range:
    low, high = _of(node, depth)
    return Range(0.0 if low >= 0 else -0.171, max(high, 0.0))


def _absolute(node: fx.Node, depth: int) -> Range:
    low, high = _of(node, depth)
    return Range(max(low, -high, 0.0), max(abs(low), abs(high)))


def _extreme(pick: Callable[[float, float], float]) -> Callable[[fx.Node, int], Range]:
    def rule(node: fx.Node, depth: int) -> Range:
        one, two = (bounds(a, depth) for a in args_of(node)[:2])
        return Range(pick(one.low, two.low), pick(one.high, two.high))

    return rule


def _scale(node: fx.Node, depth: int) -> Range:
    """Multiplication or division by a number."""
    factor = scalar_value(args_of(node)[1])
    if factor is None or factor == 0.0 or node.kwargs:
        return ANY
    if is_call(node, aten.div.Tensor):
        factor = 1.0 / factor
    ends = sorted(v * factor for v in _of(node, depth))
    return Range(*ends)


def _shift(node: fx.Node, depth: int) -> Range:
    amount = scalar_value(args_of(node)[1])
    if amount is None or node.kwargs:
        return ANY
    sign = -1.0 if is_call(node, aten.sub.Tensor) else 1.0
    low, high = _of(node, depth)
    return Range(low + sign * amount, high + sign * amount)


def _average_pool(node: fx.Node, depth: int) -> Range:
    low, high = _of(node, depth)
    return Range(min(low, 0.0), max(high, 0.0)) if argument(node, 6) is None else ANY


_RULES: dict[Any, Callable[[fx.Node, int], Range]] = {
    aten.relu.default: _relu, aten.clamp.default: _clamp, aten.hardtanh.default: _clamp,
    aten.sigmoid.default: _fixed(0.0, 1.0), aten.tanh.default: _fixed(-1.0, 1.0),
    aten._softmax.default: _fixed(0.0, 1.0), aten._log_softmax.default: _fixed(-INF, 0.0),
    aten.exp.default: _fixed(0.0, INF), aten.sqrt.default: _fixed(0.0, INF),
    aten.leaky_relu.default: _leaky, aten.gelu.default: _gelu, aten.abs.default: _absolute,
    aten.minimum.default: _extreme(min), aten.maximum.default: _extreme(max),
    aten.mul.Tensor: _scale, aten.div.Tensor: _scale, aten.add.Tensor: _shift, aten.sub.Tensor: _shift,
    aten.avg_pool2d.default: _average_pool, aten.avg_pool3d.default: _average_pool,
    aten.mean.dim: _of, aten.amax.default: _of, aten.amin.default: _of, aten.clone.default: _of,
    **{op: _of for op in VIEW_OPS},
}  # fmt: skip
