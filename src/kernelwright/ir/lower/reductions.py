"""Reductions, scans, softmaxes and norms over given dimensions."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kernelwright.ir.lower.affine import Index, contiguous_strides, flatten
from kernelwright.ir.lower.maker import Maker, normalise_dims, require_float
from kernelwright.ir.lower.pointwise import Emit, UnsupportedError
from kernelwright.ir.lower.registry import HANDLERS, Made, handles
from kernelwright.ir.lower.values import Value
from kernelwright.ir.program import Affine, Combine, Expr

_Pieces: TypeAlias = tuple[Callable[..., Expr], Combine, Callable[..., Expr] | None]


_OF_BOOLS: dict[Combine, Combine] = {"max": "any", "min": "all"}


def _finish(make: Maker, reduced: Value, dims: Sequence[int], keepdim: bool) -> Value:
    return make.keepdim(reduced, dims) if keepdim else reduced


def _reduction(combine: Combine) -> Any:
    def build(make: Maker, x: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
        if not isinstance(dims, int | list | tuple | None):
            raise UnsupportedError("dimensions that are not numbers")
        over = normalise_dims(dims, len(x.shape))
        how = _OF_BOOLS.get(combine, combine) if x.dtype == "bool" else combine
        source = make.cast(x, "bool" if how in ("any", "all") else make.dtype)
        reduced = make.cast(make.reduce(source, over, how), make.dtype)  # any and all of uint8 are uint8
        return _finish(make, reduced, over, keepdim)

    return build


for _combine, _names in {
    "sum": ("sum.default", "sum.dim_IntList"),
    "prod": ("prod.default", "prod.dim_int"),
    "max": ("amax.default", "max.default"),
    "min": ("amin.default", "min.default"),
    "any": ("any.default", "any.dim", "any.dims"),
    "all": ("all.default", "all.dim", "all.dims"),
}.items():
    for _name in _names:
        HANDLERS[_name] = _reduction(_combine)  # type: ignore[arg-type]


@handles("mean", "mean.dim")
def mean(make: Maker, x: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
    over = normalise_dims(dims, len(x.shape))
    kept = make.mean(make.cast(x, make.dtype), over)
    return kept if keepdim else make.reshape(kept, make.shape)


def _arg(combine: Combine) -> Any:
    def build(make: Maker, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        over = normalise_dims(dim, len(x.shape))
        return _finish(make, _positions(make, x, over, combine), over, keepdim)

    return build


HANDLERS["argmax.default"] = _arg("argmax")
HANDLERS["argmin.default"] = _arg("argmin")


def _positions(make: Maker, x: Value, over: Sequence[int], combine: Combine) -> Value:
    strides = contiguous_strides([x.shape[d] for d in over])

    def position(index: Index) -> Affine:
        return flatten([index[d] for d in over], strides)

    return make.reduce(x, over, combine, "int64", position)


def _with_positions(combine: Combine, arg: Combine) -> Any:
    def build(make: Maker, x: Value, dim: int, keepdim: bool = False) -> Made:
        over = normalise_dims(dim, len(x.shape))
        values = make.reduce(x, over, combine)
        positions = _positions(make, x, over, arg)
        return _finish(make, values, over, keepdim), _finish(make, positions, over, keepdim)

    return build


HANDLERS["max.dim"] = _with_positions("max", "argmax")
HANDLERS["min.dim"] = _with_positions("min", "argmin")


@handles("var.correction")
def var(make: Maker, x: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    return _moments(make, x, dims, correction, keepdim)[0]


@handles("var.dim")
def var_dim(make: Maker, x: Value, dims: Any, unbiased: bool = True, keepdim: bool = False) -> Value:
    return _moments(make, x, dims, 1 if unbiased else 0, keepdim)[0]


@handles("var_mean.correction")
def var_mean(
    make: Maker, x: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Made:
    return _moments(make, x, dims, correction, keepdim)


@handles("std.correction")
def std(make: Maker, x: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    variance = _moments(make, x, dims, correction, keepdim)[0]
    return make.pointwise(lambda e, v: e("sqrt", v), variance)


def _moments(make: Maker, x: Value, dims: Any, correction: Any, keepdim: bool) -> tuple[Value, Value]:
    require_float(x)
    over = normalise_dims(dims, len(x.shape))
    average = make.mean(x, over)
    spread = make.variance(x, average, over, 1 if correction is None else correction)
    if keepdim:
        return spread, average
    shape = [n for d, n in enumerate(x.shape) if d not in over]
    return make.reshape(spread, shape), make.reshape(average, shape)


@handles("linalg_vector_norm")
def vector_norm(
    make: Maker, x: Value, order: float = 2, dims: Any = None, keepdim: bool = False, **_: Any
) -> Value:
    require_float(x)
    over = normalise_dims(dims, len(x.shape))
    before, combine, after = _norm_pieces(float(order))
    source = make.pointwise(before, make.cast(x, make.dtype), shape=x.shape)
    reduced = _finish(make, make.reduce(source, over, combine), over, keepdim)
    return make.pointwise(after, reduced) if after else reduced


def _norm_pieces(order: float) -> _Pieces:
    if order == 2:
        return (lambda e, x: e("square", x)), "sum", (lambda e, s: e("sqrt", s))
    if order == 1:
        return (lambda e, x: e("abs", x)), "sum", None
    if math.isinf(order):
        return (lambda e, x: e("abs", x)), ("max" if order > 0 else "min"), None
    if order == 0:
        return (
            (lambda e, x: e("where", e("ne", x, e.number(0), dtype="bool"), e.number(1), e.number(0))),
            "sum",
            None,
        )
    return (
        (lambda e, x: e("pow", e("abs", x), e.number(order))),
        "sum",
        (lambda e, s: e("pow", s, e.number(1 / order))),
    )


def _finite_or_zero(e: Emit, peak: Expr) -> Expr:
    return e("where", e("isinf", peak, dtype="bool"), e.number(0), peak)


@handles("logsumexp")
def logsumexp(make: Maker, x: Value, dims: Any, keepdim: bool = False) -> Value:
    require_float(x)
    over = normalise_dims(dims, len(x.shape))
    peak = make.keepdim(make.reduce(x, over, "max"), over)
    top = make.pointwise(_finite_or_zero, peak, shape=peak.shape)
    grown = make.pointwise(lambda e, v, m: e("exp", e("sub", v, m)), x, top, shape=x.shape)
    total = make.keepdim(make.reduce(grown, over, "sum"), over)
    result = make.pointwise(lambda e, s, m: e("add", e("log", s), m), total, top, shape=total.shape)
    return result if keepdim else make.reshape(result, make.shape)


@handles("_softmax", "softmax.int")
def softmax(make: Maker, x: Value, dim: int, *dtype: Any) -> Value:
    grown, total, _ = _exponentials(make, x, dim)
    return make.pointwise(lambda e, v, s: e("div", v, s), grown, total)


@handles("_log_softmax", "log_softmax.int")
def log_softmax(make: Maker, x: Value, dim: int, *dtype: Any) -> Value:
    _, total, top = _exponentials(make, x, dim)
    return make.pointwise(lambda e, v, m, s: e("sub", e("sub", v, m), e("log", s)), x, top, total)


def _exponentials(make: Maker, x: Value, dim: int) -> tuple[Value, Value, Value]:
    require_float(x)
    if x.dtype != make.dtype or not x.shape:
        raise UnsupportedError("softmax that converts")
    over = normalise_dims(dim, len(x.shape))
    top = make.keepdim(make.reduce(x, over, "max"), over)
    grown = make.pointwise(lambda e, v, m: e("exp", e("sub", v, m)), x, top, shape=x.shape)
    return grown, make.keepdim(make.reduce(grown, over, "sum"), over), top


def _accumulation(combine: Combine) -> Any:
    def build(make: Maker, x: Value, dim: int, **_: Any) -> Value:
        if not x.shape:
            return make.cast(x, make.dtype)
        along = dim % len(x.shape)
        return make.scan(make.cast(x, make.dtype), along, combine)

    return build


HANDLERS["cumsum.default"] = _accumulation("sum")
HANDLERS["cumprod.default"] = _accumulation("prod")
