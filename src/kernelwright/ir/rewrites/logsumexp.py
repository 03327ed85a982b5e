"""Recognise logsumexp in the pieces that core ATen takes it apart into."""

import math
from typing import Any, NamedTuple

from torch import fx

from kernelwright.ir.rewrites.reading import (
    Reduction,
    args_of,
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
    n_merged: int


def find_logsumexp(node: fx.Node) -> LogSumExp | None:
    """Read ``log(sum(exp(x - m))) + m`` with ``m = where(|amax(x)| == inf, 0, amax(x))``."""
    if not is_call(node, aten.add.Tensor) or node.kwargs or not is_call(args_of(node)[0], aten.log.default):
        return None
    summed: Any = args_of(node)[0].args[0]
    total: Reduction | None = linear_reduction(summed)
    if total is None or total.kind != "sum" or not is_call(total.source, aten.exp.default):
        return None
    shifted: Any = args_of(total.source)[0]
    if not is_call(shifted, aten.sub.Tensor) or shifted.kwargs:
        return None
    source, shift = args_of(shifted)
    if not isinstance(source, fx.Node) or skip_views(args_of(node)[1]) is not shift:
        return None
    if not _is_guarded_maximum(shift, source, total):
        return None
    return LogSumExp(source, total.dims, math.prod(shape(source)[d] for d in total.dims))


def _is_guarded_maximum(shift: Any, source: fx.Node, total: Reduction) -> bool:
    if not is_call(shift, aten.where.self) or scalar_value(args_of(shift)[1]) != 0.0:
        return False
    peak: Any = args_of(shift)[2]
    if peak is source:  # the maximum over one element has been simplified away
        return total.n_merged == 1
    if not is_call(peak, aten.amax.default) or args_of(peak)[0] is not source:
        return False
    rank = len(shape(source))
    return tuple(sorted(d % rank for d in args_of(peak)[1])) == total.dims
