"""Operators that only change the index: views, slices, concatenation, padding, gathering."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelwright.ir.lower.affine import (
    ZERO,
    Index,
    NotAffineError,
    add,
    scale,
    shift,
    unflatten,
)
from kernelwright.ir.lower.maker import Maker, broadcast, insert
from kernelwright.ir.lower.pointwise import Emit, UnsupportedError, cast
from kernelwright.ir.lower.registry import handles
from kernelwright.ir.lower.values import BlockedError, Inline, Reader, Scan, Value
from kernelwright.ir.program import Affine, Expr

MAX_PIECES = 4
"""Concatenations of more tensors stay calls: a chain of conditions per element costs more than a copy."""


@handles("clone", "alias", "detach", "lift_fresh_copy", "contiguous")
def identity(make: Maker, x: Value, **_: Any) -> Value:
    return x


@handles("copy")
def copy(make: Maker, target: Value, x: Value, non_blocking: bool = False) -> Value:
    return make.pointwise(lambda e, value: value, x)


@handles("view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "_reshape_copy")
def reshape(make: Maker, x: Value, *_: Any) -> Value:
    return make.reshape(x, make.shape)


@handles("permute", "permute_copy")
def permute(make: Maker, x: Value, dims: Sequence[int]) -> Value:
    back = [0] * len(dims)
    for position, dim in enumerate(dims):
        back[dim % len(dims)] = position
    return make.view(x, make.shape, lambda i: tuple(i[p] for p in back))


@handles("t")
def transpose_2d(make: Maker, x: Value) -> Value:
    return permute(make, x, tuple(reversed(range(len(x.shape)))))


@handles("transpose.int")
def transpose(make: Maker, x: Value, a: int, b: int) -> Value:
    dims = list(range(len(x.shape)))
    dims[a], dims[b] = dims[b], dims[a]
    return permute(make, x, dims)


@handles("expand", "expand_copy")
def expand(make: Maker, x: Value, size: Sequence[int], implicit: bool = False) -> Value:
    return make.view(x, make.shape, lambda i: broadcast(i, x.shape))


@handles("unsqueeze", "unsqueeze_copy")
def unsqueeze(make: Maker, x: Value, dim: int) -> Value:
    at = dim % (len(x.shape) + 1)
    return make.view(x, make.shape, lambda i: i[:at] + i[at + 1 :])


@handles("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dims")
def squeeze(make: Maker, x: Value, dims: int | Sequence[int] | None = None) -> Value:
    rank = len(x.shape)
    wanted = [dims] if isinstance(dims, int) else range(rank) if dims is None else dims
    gone = [d % rank for d in wanted if x.shape[d] == 1] if rank else []
    return make.view(x, make.shape, lambda i: insert(i, gone))


@handles("slice.Tensor", "slice_copy.Tensor")
def slice_(
    make: Maker, x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    at, size = dim % len(x.shape), x.shape[dim]
    first = min(max((start or 0) + (size if (start or 0) < 0 else 0), 0), size)
    return make.view(x, make.shape, lambda i: _at(i, at, shift(scale(i[at], step), first)))


@handles("select.int", "select_copy.int")
def select(make: Maker, x: Value, dim: int, position: int) -> Value:
    at = dim % len(x.shape)
    fixed = Affine(offset=position % x.shape[at])
    return make.view(x, make.shape, lambda i: (*i[:at], fixed, *i[at:]))


@handles("flip")
def flip(make: Maker, x: Value, dims: Sequence[int]) -> Value:
    flipped = tuple(sorted(d % len(x.shape) for d in dims))
    if isinstance(x, Scan) and flipped == (x.dim,) and _is_flip(x.source, flipped):
        unflipped = x.source.flips[0]  # type: ignore[attr-defined]  # _is_flip says that it has them
        return make.scan(unflipped, x.dim, x.combine, reverse=not x.reverse)

    def remap(index: Index) -> Index:
        return tuple(shift(scale(p, -1), x.shape[d] - 1) if d in flipped else p for d, p in enumerate(index))

    return make.view(x, make.shape, remap, flips=(x, flipped))


def _is_flip(value: Value, dims: tuple[int, ...]) -> bool:
    return isinstance(value, Inline) and value.flips is not None and value.flips[1] == dims


@handles("unfold")
def unfold(make: Maker, x: Value, dim: int, size: int, step: int) -> Value:
    at = dim % max(len(x.shape), 1)

    def remap(index: Index) -> Index:
        return _at(index[:-1], at, add(scale(index[at], step), index[-1]))

    return make.view(x, make.shape, remap, window=step < size)


@handles("split_with_sizes")
def split_with_sizes(make: Maker, x: Value, sizes: Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    at, offset, pieces = dim % len(x.shape), 0, []
    for size in sizes:
        shape = [size if d == at else n for d, n in enumerate(x.shape)]
        pieces.append(make.view(x, shape, _shifted(at, offset)))
        offset += size
    return tuple(pieces)


@handles("split.Tensor")
def split_evenly(make: Maker, x: Value, size: int, dim: int = 0) -> tuple[Value, ...]:
    total = x.shape[dim]
    sizes = [min(size, total - start) for start in range(0, total, size)]
    return split_with_sizes(make, x, sizes, dim)


@handles("unbind.int")
def unbind(make: Maker, x: Value, dim: int = 0) -> tuple[Value, ...]:
    at = dim % len(x.shape)
    shape = x.shape[:at] + x.shape[at + 1 :]
    return tuple(make.view(x, shape, _selected(at, position)) for position in range(x.shape[at]))


def _shifted(at: int, offset: int) -> Any:
    return lambda index: _at(index, at, shift(index[at], offset))


def _selected(at: int, position: int) -> Any:
    return lambda index: (*index[:at], Affine(offset=position), *index[at:])


@handles("repeat")
def repeat(make: Maker, x: Value, repeats: Sequence[int]) -> Value:
    def compute(reader: Reader, index: Index) -> Expr:
        tail = index[len(index) - len(x.shape) :] if x.shape else ()
        wrapped = tuple(
            _divided(reader, x, part, n, times)[1] if times > 1 and n > 1 else (part if n > 1 else ZERO)
            for part, n, times in zip(tail, x.shape, repeats[len(index) - len(x.shape) :], strict=True)
        )
        return reader.read(x, wrapped)

    return make.inline([x], compute, is_view=True)


@handles("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
@handles("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def upsample_nearest(make: Maker, x: Value, size: Any, *scales: Any) -> Value:
    factors = [out // max(n, 1) for out, n in zip(make.shape, x.shape, strict=True)]
    if any(n * f != out for out, n, f in zip(make.shape, x.shape, factors, strict=True)):
        raise UnsupportedError("upsampling by a fraction")
    given = [s for entry in scales for s in (entry if isinstance(entry, list | tuple) else [entry])]
    given += [None] * (len(x.shape) - 2 - len(given))
    for n, out, by in zip(x.shape[2:], make.shape[2:], given, strict=True):
        if out > 2 * n and not _repeats(n, out, out / n if by is None else by):
            raise UnsupportedError("upsampling by a scale that is not the ratio of the sizes")

    def compute(reader: Reader, index: Index) -> Expr:
        parts = tuple(
            _divided(reader, x, part, f, n)[0] if f > 1 and n > 1 else (part if n > 1 else ZERO)
            for part, n, f in zip(index, x.shape, factors, strict=True)
        )
        return reader.read(x, parts)

    return make.inline([x], compute, is_view=True)


def _repeats(n: int, out: int, scale: float) -> bool:
    """Whether torch reads each element equally often: it multiplies by the inverse scale in float32."""
    places = np.arange(out, dtype=np.float32) * np.float32(1.0 / scale)
    return bool((places.astype(np.int64) == np.arange(out) // (out // n)).all())


def _divided(reader: Reader, x: Value, part: Affine, divisor: int, quotients: int) -> Index:
    try:
        return unflatten(part, (quotients, divisor), reader.sizes)
    except NotAffineError as error:
        raise BlockedError(x, None, str(error)) from error


@handles("cat")
def cat(make: Maker, pieces: Sequence[Value], dim: int = 0) -> Value:
    parts = [p for p in pieces if p.shape != (0,)]
    if len(parts) > MAX_PIECES or any(p.dtype != make.dtype for p in parts):
        raise UnsupportedError("a long concatenation")
    return side_by_side(make, parts, dim % len(make.shape), make.shape)


def side_by_side(make: Maker, parts: Sequence[Value], at: int, shape: Sequence[int]) -> Value:
    """Return values one after the other along a dimension; ``shape`` is the result's."""
    starts = [sum(p.shape[at] for p in parts[:k]) for k in range(len(parts))]

    def compute(reader: Reader, index: Index) -> Expr:
        emit = Emit(make.dtype, reader.op)
        expr: Expr = emit.number(0)
        for piece, start in reversed(list(zip(parts, starts, strict=True))):
            local = shift(index[at], -start)
            expr = reader.guarded(piece, _at(index, at, local), [(local, piece.shape[at])], expr)
        return expr

    return make.inline(parts, compute, shape)


@handles("constant_pad_nd")
def constant_pad(make: Maker, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    rank = len(x.shape)
    before = [0] * rank
    for k in range(len(pad) // 2):
        before[rank - 1 - k] = pad[2 * k]

    def compute(reader: Reader, index: Index) -> Expr:
        local = tuple(shift(part, -lead) for part, lead in zip(index, before, strict=True))
        checks = list(zip(local, x.shape, strict=True))
        return reader.guarded(x, local, checks, Emit(make.dtype, reader.op).number(value))

    return make.inline([x], compute)


@handles("slice_scatter")
def slice_scatter(
    make: Maker, x: Value, source: Value, dim: int = 0, start: int | None = None, *rest: int | None
) -> Value:
    if len(rest) > 1 and rest[1] != 1:
        raise UnsupportedError("scattering with a step")
    at, size = dim % len(x.shape), x.shape[dim]
    first = min(max((start or 0) + (size if (start or 0) < 0 else 0), 0), size)
    return _overlay(make, x, source, at, first, lambda index, local: _at(index, at, local))


@handles("select_scatter")
def select_scatter(make: Maker, x: Value, source: Value, dim: int, position: int) -> Value:
    at = dim % len(x.shape)
    return _overlay(make, x, source, at, position % x.shape[at], lambda i, local: i[:at] + i[at + 1 :])


def _overlay(make: Maker, x: Value, source: Value, at: int, first: int, remap: Any) -> Value:
    extent = source.shape[at] if len(source.shape) == len(x.shape) else 1

    def compute(reader: Reader, index: Index) -> Expr:
        local = shift(index[at], -first)
        behind = reader.read(x, index)
        return reader.guarded(source, remap(index, local), [(local, extent)], behind)

    return make.inline([x, source], compute)


@handles("embedding")
def embedding(make: Maker, table: Value, positions: Value, *_: Any) -> Value:
    rank = len(positions.shape)

    def compute(reader: Reader, index: Index) -> Expr:
        row = _position(reader, positions, index[:rank], table.shape[0], wraps=False)
        return reader.read(table, (row, *index[rank:]))

    return make.inline([table, positions], compute)


@handles("gather")
def gather(make: Maker, x: Value, dim: int, positions: Value, sparse_grad: bool = False) -> Value:
    if not x.shape:
        return x
    at = dim % len(x.shape)

    def compute(reader: Reader, index: Index) -> Expr:
        return reader.read(x, _at(index, at, _position(reader, positions, index, x.shape[at], wraps=False)))

    return make.inline([x, positions], compute)


@handles("index_select")
def index_select(make: Maker, x: Value, dim: int, positions: Value) -> Value:
    at = dim % len(x.shape)

    def compute(reader: Reader, index: Index) -> Expr:
        where = (index[at],) if positions.shape else ()
        return reader.read(x, _at(index, at, _position(reader, positions, where, x.shape[at], wraps=False)))

    return make.inline([x, positions], compute)


@handles("index.Tensor", "_unsafe_index.Tensor")
def index_tensor(make: Maker, x: Value, positions: Sequence[Value | None]) -> Value:
    given = [d for d, p in enumerate(positions) if p is not None]
    chosen = [p for p in positions if p is not None]
    if given != list(range(given[0], given[0] + len(given))) or any(p.dtype == "bool" for p in chosen):
        raise UnsupportedError("indexing by masks or in several places")
    width = max(len(p.shape) for p in chosen)
    first = given[0]

    def compute(reader: Reader, index: Index) -> Expr:
        local = index[first : first + width]
        parts = tuple(
            _position(reader, p, broadcast(local, p.shape), x.shape[first + k], wraps=True)
            for k, p in enumerate(chosen)
        )
        return reader.read(x, (*index[:first], *parts, *index[first + width :]))

    return make.inline([x, *chosen], compute)


def _position(reader: Reader, positions: Value, index: Index, size: int, *, wraps: bool) -> Affine:
    """Return an index for the element of ``positions``; ``wraps``: negative ones count from the end."""
    emit = Emit("int64", reader.op)
    found = cast(emit, reader.read(positions, index), "int64")
    if wraps:
        negative = emit("lt", found, emit.number(0), dtype="bool")
        found = emit("where", negative, emit("add", found, emit.number(size)), found)
    return reader.dynamic_axis(found, size)


def _at(index: Index, dim: int, part: Affine) -> Index:
    return (*index[:dim], part, *index[dim + 1 :])
