"""Normalisation operators, written as mean, variance and a map so that they fuse with their neighbours."""

from collections.abc import Sequence
from typing import Any

from kernelwright.ir.lower.maker import Maker, require_float
from kernelwright.ir.lower.pointwise import Emit, UnsupportedError
from kernelwright.ir.lower.registry import Made, handles
from kernelwright.ir.lower.values import Value
from kernelwright.ir.program import Expr


def _rsqrt_plus(eps: float) -> Any:
    return lambda e, variance: e("rsqrt", e("add", variance, e.number(eps)))


def _normalise(e: Emit, x: Expr, mean: Expr, rstd: Expr, weight: Expr | None, bias: Expr | None) -> Expr:
    result = e("mul", e("sub", x, mean), rstd)
    result = result if weight is None else e("mul", result, weight)
    return result if bias is None else e("add", result, bias)


def _statistics(make: Maker, x: Value, dims: Sequence[int], eps: float) -> tuple[Value, Value, Value]:
    require_float(x)
    mean = make.mean(x, dims)
    variance = make.variance(x, mean, dims)
    rstd = make.pointwise(_rsqrt_plus(eps), variance, shape=variance.shape, dtype=make.dtype)
    return mean, variance, rstd


@handles("native_layer_norm")
def layer_norm(
    make: Maker, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> Made:
    dims = range(len(x.shape) - len(shape), len(x.shape))
    mean, _, rstd = _statistics(make, x, dims, eps)
    return make.pointwise(_normalise, x, mean, rstd, weight, bias), mean, rstd


@handles("_fused_rms_norm")
def rms_norm(make: Maker, x: Value, shape: Sequence[int], weight: Value | None, eps: float | None) -> Made:
    require_float(x)
    if eps is None:
        raise UnsupportedError("rms norm with the dtype's own epsilon")
    dims = range(len(x.shape) - len(shape), len(x.shape))
    squared = make.pointwise(lambda e, v: e("square", v), x)
    rstd = make.mean(squared, dims)
    rstd = make.pointwise(_rsqrt_plus(eps), rstd, shape=rstd.shape)
    scaled = make.pointwise(lambda e, v, r, w: _scaled(e, v, r, w), x, rstd, weight)
    return scaled, rstd


def _scaled(e: Emit, x: Expr, rstd: Expr, weight: Expr | None) -> Expr:
    result = e("mul", x, rstd)
    return result if weight is None else e("mul", result, weight)


@handles("native_group_norm")
def group_norm(
    make: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: int,
    channels: int,
    positions: int,
    groups: int,
    eps: float,
) -> Made:
    per_group = channels // groups
    spatial = x.shape[2:]
    grouped = make.reshape(x, (n, groups, per_group, *spatial))
    dims = range(2, len(grouped.shape))
    mean, _, rstd = _statistics(make, grouped, dims, eps)
    scale = _per_channel(make, weight, (groups, per_group), len(spatial))
    offset = _per_channel(make, bias, (groups, per_group), len(spatial))
    normal = make.pointwise(_normalise, grouped, mean, rstd, scale, offset, shape=grouped.shape)
    flat = (n, groups)
    return make.reshape(normal, x.shape), make.reshape(mean, flat), make.reshape(rstd, flat)


def _per_channel(make: Maker, vector: Value | None, shape: Sequence[int], spatial: int) -> Value | None:
    return None if vector is None else make.reshape(vector, (*shape, *[1] * spatial))


def _channels(make: Maker, vector: Value | None, x: Value) -> Value | None:
    return _per_channel(make, vector, (x.shape[1],), len(x.shape) - 2)


@handles("_native_batch_norm_legit_functional")
def batch_norm_training(
    make: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> Made:
    if not training:
        raise UnsupportedError("functional batch norm that does not train")
    normal, mean, rstd, variance = _batch_statistics(make, x, weight, bias, eps)
    count = _count_per_channel(x)
    unbiased = count / max(count - 1, 1)
    new_mean = make.pointwise(_blend(momentum, 1.0), running_mean, mean, shape=running_mean.shape)
    new_var = make.pointwise(_blend(momentum, unbiased), running_var, variance, shape=running_var.shape)
    return normal, mean, rstd, new_mean, new_var


@handles("_native_batch_norm_legit.no_stats")
def batch_norm_stateless(
    make: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Made:
    normal, mean, rstd, _ = _batch_statistics(make, x, weight, bias, eps)
    return normal, mean, rstd


@handles("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    make: Maker,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> Made:
    require_float(x)
    rstd = make.pointwise(_rsqrt_plus(eps), running_var, shape=running_var.shape)
    parts = [_channels(make, v, x) for v in (running_mean, rstd, weight, bias)]
    return make.pointwise(_normalise, x, *parts), None, None


def _batch_statistics(
    make: Maker, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """Return the normalised tensor and, per channel, mean, reciprocal deviation and biased variance."""
    dims = [d for d in range(len(x.shape)) if d != 1]
    mean, variance, rstd = _statistics(make, x, dims, eps)
    parts = (_channels(make, weight, x), _channels(make, bias, x))
    normal = make.pointwise(_normalise, x, mean, rstd, *parts)
    flat = (x.shape[1],)
    return normal, make.reshape(mean, flat), make.reshape(rstd, flat), make.reshape(variance, flat)


def _count_per_channel(x: Value) -> int:
    count = 1
    for d, size in enumerate(x.shape):
        count *= 1 if d == 1 else size
    return count


def _blend(momentum: float, factor: float) -> Any:
    """Return the update of a running statistic by ``factor`` times a batch statistic."""

    def build(e: Emit, running: Expr, batch: Expr) -> Expr:
        fresh = e("mul", batch, e.number(momentum * factor))
        return e("add", e("mul", running, e.number(1 - momentum)), fresh)

    return build
