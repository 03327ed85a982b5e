"""Construct the values of one graph node."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from kernelwright.ir.lower.affine import ZERO, Index, contiguous_strides, flatten
from kernelwright.ir.lower.pointwise import FLOATS, Emit, UnsupportedError, cast
from kernelwright.ir.lower.values import Inline, Reader, Reduce, Scan, Value
from kernelwright.ir.program import Affine, Combine, DType, Expr

Build: TypeAlias = Callable[..., Expr]
_V = TypeVar("_V", bound=Value)
Remap: TypeAlias = Callable[[Index], Index]


def broadcast(index: Index, shape: Sequence[int]) -> Index:
    """Return the index of an operand of ``shape`` broadcast against the indexed value."""
    tail = index[len(index) - len(shape) :] if shape else ()
    return tuple(ZERO if size == 1 else part for part, size in zip(tail, shape, strict=True))


def normalise_dims(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Return sorted non-negative dimensions; None and an empty list mean all."""
    if isinstance(dims, int):
        dims = [dims]
    if not dims:
        return tuple(range(rank))
    return tuple(sorted({d % rank for d in dims})) if rank else ()


class Maker:
    """Names the values of one node and fills in the common cases."""

    def __init__(self, node: str, shape: tuple[int, ...], dtype: DType) -> None:
        self.node = node
        self.shape = shape
        self.dtype = dtype
        self.made: list[Value] = []
        """Every value made so far, producers first."""

    def name(self) -> str:
        """Return the name of the value that is made next."""
        return f"{self.node}_v{len(self.made)}" if self.made else self.node

    def keep(self, value: _V) -> _V:
        """Note a value as made and return it."""
        self.made.append(value)
        return value

    def inline(
        self,
        inputs: Sequence[Value],
        compute: Callable[[Reader, Index], Expr],
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        **flags: Any,
    ) -> Inline:
        """Return a value computed where it is read; by default of the node's shape and dtype."""
        return self.keep(
            Inline(
                name=self.name(),
                shape=self.shape if shape is None else tuple(shape),
                dtype=dtype or self.dtype,
                node=self.node,
                inputs=tuple(inputs),
                compute=compute,
                **flags,
            )
        )

    def view(self, source: Value, shape: Sequence[int], remap: Remap, **flags: Any) -> Inline:
        """Return ``source`` under another index."""

        def compute(reader: Reader, index: Index) -> Expr:
            return reader.read(source, remap(index))

        return self.inline([source], compute, shape, source.dtype, is_view=True, **flags)

    def reshape(self, source: Value, shape: Sequence[int]) -> Value:
        """Return the elements of ``source`` in row-major order under another shape."""
        if tuple(shape) == source.shape:
            return source
        strides = contiguous_strides(shape)

        def compute(reader: Reader, index: Index) -> Expr:
            return reader.read_reshaped(source, flatten(index, strides))

        return self.inline([source], compute, shape, source.dtype, is_view=True)

    def pointwise(
        self,
        build: Build,
        *operands: Value | bool | int | float | str | None,
        shape: Sequence[int] | None = None,
        dtype: DType | None = None,
        compute_dtype: DType | None = None,
    ) -> Inline:
        """Return ``build(emit, *expressions)``; operands are broadcast and cast to the compute dtype."""
        result = dtype or self.dtype
        inner = compute_dtype or result

        def compute(reader: Reader, index: Index) -> Expr:
            emit = Emit(inner, reader.op)
            args = [_operand(emit, reader, index, operand) for operand in operands]
            try:
                return cast(emit, build(emit, *args), result)
            except UnsupportedError as error:
                error.node = self.node
                raise

        return self.inline([o for o in operands if isinstance(o, Value)], compute, shape, result)

    def reduce(
        self,
        source: Value,
        dims: Sequence[int],
        combine: Combine,
        dtype: DType | None = None,
        position: Callable[[Index], Affine] | None = None,
    ) -> Value:
        """Return ``source`` combined over ``dims``, without them."""
        if any(source.shape[d] == 0 for d in range(len(source.shape))):
            raise UnsupportedError("a reduction of nothing")
        result: DType = dtype or source.dtype  # type: ignore[assignment]  # values of other dtypes are never reduced
        shape = [n for d, n in enumerate(source.shape) if d not in dims]
        if all(source.shape[d] == 1 for d in dims):
            return self._reduce_ones(source, dims, combine, result, shape)
        return self.keep(
            Reduce(self.name(), tuple(shape), result, self.node, source, tuple(dims), combine, position)
        )

    def _reduce_ones(
        self, source: Value, dims: Sequence[int], combine: Combine, dtype: DType, shape: Sequence[int]
    ) -> Value:
        if combine in ("argmax", "argmin"):
            return self.pointwise(lambda e: e.number(0), shape=shape, dtype=dtype)
        dropped = self.view(source, shape, lambda index: insert(index, dims)) if dims else source
        return self.pointwise(lambda e, x: x, dropped, shape=shape, dtype=dtype)

    def keepdim(self, value: Value, dims: Sequence[int]) -> Value:
        """Return a reduction's result with its dimensions back, of size 1."""
        if not dims:
            return value
        gone = set(dims)
        rank = len(value.shape) + len(gone)
        sizes = iter(value.shape)
        shape = [1 if d in gone else next(sizes) for d in range(rank)]
        return self.view(value, shape, lambda i: tuple(p for d, p in enumerate(i) if d not in gone))

    def scan(self, source: Value, dim: int, combine: Combine, *, reverse: bool = False) -> Scan:
        """Return ``source`` accumulated along ``dim``, from its end when ``reverse``."""
        return self.keep(
            Scan(self.name(), source.shape, self.dtype, self.node, source, dim, combine, reverse)
        )

    def mean(self, source: Value, dims: Sequence[int]) -> Value:
        """Return the mean over ``dims``, which stay with size 1."""
        count = 1
        for d in dims:
            count *= source.shape[d]
        total = self.keepdim(self.reduce(source, dims, "sum"), dims)
        if count == 1:
            return total
        return self.pointwise(
            lambda e, s: e("div", s, e.number(count)), total, shape=total.shape, dtype=_dtype(source)
        )

    def variance(self, source: Value, mean: Value, dims: Sequence[int], correction: float = 0) -> Value:
        """Return the mean squared difference from ``mean``; dimensions stay with size 1."""
        squared = self.pointwise(
            lambda e, x, m: e("square", e("sub", x, m)),
            source,
            mean,
            shape=source.shape,
            dtype=_dtype(source),
        )
        count = 1
        for d in dims:
            count *= source.shape[d]
        total = self.keepdim(self.reduce(squared, dims, "sum"), dims)
        divisor = max(count - correction, 0)
        if divisor == 0:
            raise UnsupportedError("a variance without degrees of freedom")
        return self.pointwise(
            lambda e, s: e("div", s, e.number(divisor)), total, shape=total.shape, dtype=_dtype(source)
        )

    def cast(self, source: Value, dtype: DType) -> Value:
        """Return ``source`` converted to ``dtype``."""
        if source.dtype == dtype:
            return source
        return self.pointwise(lambda e, x: x, source, shape=source.shape, dtype=dtype)


def insert(index: Index, dims: Sequence[int]) -> Index:
    """Return the index with zeros at ``dims`` of the result."""
    rest = iter(index)
    return tuple(ZERO if d in dims else next(rest) for d in range(len(index) + len(dims)))


def require_float(value: Value) -> None:
    """Raise UnsupportedError unless the value is of a floating-point dtype that we generate."""
    if value.dtype not in FLOATS:
        raise UnsupportedError(f"dtype {value.dtype}")


def _dtype(value: Value) -> DType:
    return value.dtype  # type: ignore[return-value]  # computed values have a DType


def _operand(emit: Emit, reader: Reader, index: Index, operand: Any) -> Any:
    if isinstance(operand, Value):
        return cast(emit, reader.read(operand, broadcast(index, operand.shape)), emit.dtype)
    if isinstance(operand, bool | int | float):
        return emit.number(operand)
    return operand
