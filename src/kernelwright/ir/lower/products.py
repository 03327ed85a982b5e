"""Matrix products and convolutions as reductions over products: only where a plan asks for our own."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from kernelwright.ir.lower.affine import Index, add, scale, shift
from kernelwright.ir.lower.maker import Maker
from kernelwright.ir.lower.pointwise import Emit, UnsupportedError
from kernelwright.ir.lower.registry import Handler
from kernelwright.ir.lower.values import Reader, Reduce, Value
from kernelwright.ir.program import Affine, Expr

PRODUCTS: dict[str, Handler] = {}
"""``name.overload`` -> handler, as in ``registry.py``; not among those because the library is the default."""

_H = TypeVar("_H", bound=Handler)
_At = Callable[[Reader, Index], Expr]


def _multiplies(name: str) -> Callable[[_H], _H]:
    def register(handler: _H) -> _H:
        PRODUCTS[f"{name}.default"] = handler
        return handler

    return register


def _total(
    make: Maker, operands: Sequence[Value], shape: Sequence[int], n_kept: int, left: _At, right: _At
) -> Value:
    """Return the sum of ``left * right`` over the dimensions from ``n_kept`` on."""
    if any(operand.dtype != "float32" for operand in operands):
        raise UnsupportedError("products of other dtypes than float32")

    def compute(reader: Reader, index: Index) -> Expr:
        return reader.op("mul", left(reader, index), right(reader, index), dtype="float32")

    terms = make.inline(operands, compute, shape, "float32", window=True)
    total = make.reduce(terms, range(n_kept, len(shape)), "sum")
    if isinstance(total, Reduce):
        total.is_product = True
    return total


def _matrices(make: Maker, a: Value, b: Value) -> Value:
    *batch, rows, inner = a.shape
    n = len(batch)
    return _total(
        make,
        (a, b),
        (*batch, rows, b.shape[-1], inner),
        n + 2,
        lambda reader, i: reader.read(a, (*i[: n + 1], i[n + 2])),
        lambda reader, i: reader.read(b, (*i[:n], i[n + 2], i[n + 1])),
    )


@_multiplies("mm")
def mm(make: Maker, a: Value, b: Value) -> Value:
    return _matrices(make, a, b)


@_multiplies("bmm")
def bmm(make: Maker, a: Value, b: Value) -> Value:
    return _matrices(make, a, b)


@_multiplies("addmm")
def addmm(make: Maker, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    total = _matrices(make, a, b)

    def build(e: Emit, s: Expr, c: Expr) -> Expr:
        scaled = s if alpha == 1 else e("mul", s, e.number(alpha))
        return e("add", scaled, c if beta == 1 else e("mul", c, e.number(beta)))

    return make.pointwise(build, total, bias)


@_multiplies("baddbmm")
def baddbmm(make: Maker, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    return addmm(make, bias, a, b, beta=beta, alpha=alpha)


@_multiplies("convolution")
def convolution(
    make: Maker,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    n = len(weight.shape) - 2
    if len(x.shape) != n + 2:
        raise UnsupportedError("a convolution without a batch")
    steps, pads, gaps = (_each(values, n) for values in (stride, padding, dilation))
    total = (
        _transposed(make, x, weight, _Windows(steps, pads, gaps, groups))
        if transposed
        else _sum_windows(make, x, weight, _Windows(steps, pads, gaps, groups))
    )
    result = make.reshape(total, make.shape)
    if bias is None:
        return result
    channels = make.view(bias, (make.shape[1], *[1] * n), lambda index: (index[0],))
    return make.pointwise(lambda e, s, b: e("add", s, b), result, channels)


def _each(values: Sequence[int], count: int) -> list[int]:
    return list(values) * count if len(values) == 1 else list(values)


class _Windows(NamedTuple):
    """How a convolution's windows lie, axis by axis."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def _sum_windows(make: Maker, x: Value, weight: Value, windows: _Windows) -> Value:
    """Sum over input channels and taps; images, groups, channels of a group and positions stay."""
    images, _, *sizes = x.shape
    channels, inputs, *window = weight.shape
    stride, padding, dilation, groups = windows
    n, of_group = len(window), channels // groups

    def where(index: Index) -> list[Affine]:
        outs, taps = index[3 : 3 + n], index[4 + n :]
        return [
            shift(add(scale(o, s), scale(t, d)), -p)
            for o, t, s, d, p in zip(outs, taps, stride, dilation, padding, strict=True)
        ]

    def at_input(reader: Reader, index: Index) -> Expr:
        places = where(index)
        channel = add(scale(index[1], inputs), index[3 + n])
        checks = list(zip(places, sizes, strict=True))
        return reader.guarded(x, (index[0], channel, *places), checks, reader.zero())

    def at_weight(reader: Reader, index: Index) -> Expr:
        return reader.read(weight, (add(scale(index[1], of_group), index[2]), *index[3 + n :]))

    shape = (images, groups, of_group, *make.shape[2:], inputs, *window)
    return _total(make, (x, weight), shape, 3 + n, at_weight, at_input)


def _transposed(make: Maker, x: Value, weight: Value, windows: _Windows) -> Value:
    """Positions that are equal modulo the stride have taps of their own: a plain convolution for each.

    With ``o + padding = stride * q + r``, tap ``stride * j + r`` meets input ``q - j``.
    """
    images, channels, *sizes = x.shape
    _, of_group, *window = weight.shape
    stride, padding, dilation, groups = windows
    n, inputs, outs = len(window), channels // groups, make.shape[2:]
    for size, step, pad, gap in zip(outs, stride, padding, dilation, strict=True):
        if step > 1 and (size % step or pad % step or gap > 1):
            raise UnsupportedError("a transposed convolution whose phases do not lie side by side")
    spatial = [part for size, step in zip(outs, stride, strict=True) for part in (size // step, step)]
    taps = [math.ceil(size / step) for size, step in zip(window, stride, strict=True)]
    first = 3 + 2 * n

    def parts(index: Index) -> list[tuple[Affine, Affine]]:
        """Return (input position, tap) of each dimension."""
        found = []
        for d in range(n):
            q, r, j = index[3 + 2 * d], index[4 + 2 * d], index[first + 1 + d]
            tap = add(scale(j, stride[d]), r)
            found.append((shift(add(q, scale(j, -dilation[d])), padding[d] // stride[d]), tap))
        return found

    def at_input(reader: Reader, index: Index) -> Expr:
        places = [place for place, _ in parts(index)]
        channel = add(scale(index[1], inputs), index[first])
        checks = list(zip(places, sizes, strict=True))
        return reader.guarded(x, (index[0], channel, *places), checks, reader.zero())

    def at_weight(reader: Reader, index: Index) -> Expr:
        found = [tap for _, tap in parts(index)]
        channel = add(scale(index[1], inputs), index[first])
        checks = list(zip(found, window, strict=True))
        return reader.guarded(weight, (channel, index[2], *found), checks, reader.zero())

    shape = (images, groups, of_group, *spatial, inputs, *taps)
    return _total(make, (x, weight), shape, first, at_weight, at_input)
