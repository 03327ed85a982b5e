"""Recognise logsumexp in the pieces that core ATen takes it apart into."""

import math
from typing import Any, NamedTuple

from torch import fx

from kernelwright.kernels.rewrites.reading import (
    Reduction,
    aten,
    is_call,
    linear_reduction,
    scalar_value,
    shape,
    skip_views,
)


class LogSumExp(NamedTuple):
    """``source.logsumexp(dims)``."""

    source: fx.Node
    dims: tuple[int, ...]
    count: int


def find_logsumexp(node: fx.Node) -> LogSumExp | None:
    """Read ``log(sum(exp(x - m))) + m`` with ``m = where(|amax(x)| == inf, 0, amax(x))``."""
    if not is_call(node, aten.add.Tensor) or node.kwargs or not is_call(node.args[0], aten.log.default):
        return None
    summed: Any = node.args[0].args[0]
    total: Reduction | None = linear_reduction(summed)
    if total is None or total.kind != "sum" or not is_call(total.source, aten.exp.default):
        return None
    shifted: Any = total.source.args[0]
    if not is_call(shifted, aten.sub.Tensor) or shifted.kwargs:
        return None
    source, shift = shifted.args
    if not isinstance(source, fx.Node) or skip_views(node.args[1]) is not shift:  # type: ignore[arg-type]
        return None
    if not _is_guarded_maximum(shift, source, total):
        return None
    return LogSumExp(source, total.dims, math.prod(shape(source)[d] for d in total.dims))


def _is_guarded_maximum(shift: Any, source: fx.Node, total: Reduction) -> bool:
    if not is_call(shift, aten.where.self) or scalar_value(shift.args[1]) != 0.0:
        return False
    peak: Any = shift.args[2]
    if peak is source:  # the maximum over one element has been simplified away
        return total.count == 1
    if not is_call(peak, aten.amax.default) or peak.args[0] is not source:
        return False
    rank = len(shape(source))
    return tuple(sorted(d % rank for d in peak.args[1])) == total.dims  # type: ignore[union-attr]  # ints
