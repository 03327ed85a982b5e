"""Operators that create tensors, dtype casts, selection by a condition, and dropout."""

from typing import Any

from kernelwright.ir.lower.affine import Index, add, scale, shift
from kernelwright.ir.lower.maker import Maker, broadcast
from kernelwright.ir.lower.pointwise import Emit, UnsupportedError, cast, choose, constant
from kernelwright.ir.lower.registry import handles
from kernelwright.ir.lower.values import Reader, Value
from kernelwright.ir.program import Affine, Expr


def _filled(make: Maker, value: Any) -> Value:
    if not isinstance(value, bool | int | float):
        raise UnsupportedError("a fill value that is not a number")
    return make.inline([], lambda reader, index: constant(value, make.dtype))


@handles("full", "full_like")
def full(make: Maker, like: Any, value: Any, **_: Any) -> Value:
    return _filled(make, value)


@handles("scalar_tensor")
def scalar_tensor(make: Maker, value: Any, **_: Any) -> Value:
    return _filled(make, value)


@handles("zeros", "zeros_like", "new_zeros")
def zeros(make: Maker, *_: Any, **__: Any) -> Value:
    return _filled(make, 0)


@handles("ones", "ones_like", "new_ones")
def ones(make: Maker, *_: Any, **__: Any) -> Value:
    return _filled(make, 1)


@handles("fill.Scalar", "new_full")
def fill(make: Maker, like: Any, *values: Any, **_: Any) -> Value:
    return _filled(make, values[-1])


@handles("arange", "arange.start", "arange.start_step")
def arange(make: Maker, *bounds: float, **_: Any) -> Value:
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)

    def compute(reader: Reader, index: Index) -> Expr:
        if isinstance(start, int) and isinstance(step, int):
            return reader.position(shift(scale(index[0], step), start), make.dtype)
        emit = Emit(make.dtype, reader.op)
        steps = emit("mul", reader.position(index[0], make.dtype), emit.number(step))
        return emit("add", steps, emit.number(start))

    return make.inline([], compute)


@handles("iota")
def iota(make: Maker, length: int, *, start: int = 0, step: int = 1, **_: Any) -> Value:
    return arange(make, start, start + length * step, step)


@handles("eye", "eye.m")
def eye(make: Maker, *_: Any, **__: Any) -> Value:
    def compute(reader: Reader, index: Index) -> Expr:
        difference = add(index[0], scale(index[1], -1))
        return cast(Emit("bool", reader.op), reader.inside([(difference, 1)]), make.dtype)

    return make.inline([], compute)


@handles("tril")
def tril(make: Maker, x: Value, diagonal: int = 0) -> Value:
    return _triangle(make, x, lambda row, column: shift(add(row, scale(column, -1)), diagonal))


@handles("triu")
def triu(make: Maker, x: Value, diagonal: int = 0) -> Value:
    return _triangle(make, x, lambda row, column: shift(add(column, scale(row, -1)), -diagonal))


def _triangle(make: Maker, x: Value, distance: Any) -> Value:
    def compute(reader: Reader, index: Index) -> Expr:
        reach: Affine = distance(index[-2], index[-1])
        wide = x.shape[-1] + x.shape[-2] + abs(reach.offset) + 1
        return reader.guarded(x, index, [(reach, wide)], Emit(make.dtype, reader.op).number(0))

    return make.inline([x], compute)


@handles("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(make: Maker, condition: Value, x: Any, y: Any) -> Value:
    return _choice(make, condition, x, y)


@handles("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(make: Maker, x: Value, mask: Value, value: Any) -> Value:
    return _choice(make, mask, value, x)


def _choice(make: Maker, condition: Value, x: Any, y: Any) -> Value:
    def compute(reader: Reader, index: Index) -> Expr:
        emit = Emit(make.dtype, reader.op)
        test = cast(emit, reader.read(condition, broadcast(index, condition.shape)), "bool")
        return choose(emit, test, _branch(emit, reader, index, x), _branch(emit, reader, index, y))

    return make.inline([v for v in (condition, x, y) if isinstance(v, Value)], compute)


def _branch(emit: Emit, reader: Reader, index: Index, x: Any) -> Expr:
    if not isinstance(x, Value):
        return emit.number(x)
    return cast(emit, reader.read(x, broadcast(index, x.shape)), emit.dtype)


@handles("_to_copy", "to.dtype")
def to_copy(make: Maker, x: Value, *_: Any, **__: Any) -> Value:
    return make.cast(x, make.dtype)


@handles("native_dropout")
def native_dropout(make: Maker, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    if train or train is None:
        raise UnsupportedError("random numbers")
    keep = make.inline([], lambda reader, index: constant(True, "bool"), x.shape, "bool")
    return x, keep


@handles("dropout")
def dropout(make: Maker, x: Value, p: float, train: bool) -> Value:
    if train and p > 0:
        raise UnsupportedError("random numbers")
    return x
