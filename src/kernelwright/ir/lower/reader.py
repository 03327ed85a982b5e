"""Turn values into expressions at an index, inlining what is not in memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from kernelwright.ir.lower.affine import (
    Index,
    NotAffineError,
    axis,
    contiguous_strides,
    flatten,
    span,
    unflatten,
)
from kernelwright.ir.lower.values import BlockedError, Inline, Reduce, Scan, Value
from kernelwright.ir.program import (
    Affine,
    Bound,
    Const,
    DType,
    Expr,
    IndexValue,
    Inside,
    Load,
    Op,
    StageValue,
)

MAX_TREE = 3000
"""Operations of one stage's expression, counted as a tree; beyond it some value has to be stored."""


class StageReader:
    """The Reader of one stage of a region."""

    def __init__(
        self,
        stored: Mapping[Value, tuple[str, tuple[int, ...]]],
        members: Mapping[Value, object],
        current: Value,
        interned: dict[Expr, Expr],
    ) -> None:
        self.sizes: dict[str, int] = {}
        self.accesses: list[tuple[Value, Index]] = []
        """Members of the region that were read, and where."""
        self.evaluated: dict[Value, Expr] = {}
        """Inlined values, and what one reading of each became."""
        self._stored = stored
        self._members = members
        self._current = current
        self._interned = interned
        self._bounds: tuple[Bound, ...] = ()
        self._dynamic: dict[str, Expr] = {}
        self._memo: dict[tuple[Value, Index, tuple[Bound, ...]], Expr] = {}
        self._sizes_of: dict[Expr, int] = {}

    def zero(self) -> Expr:
        """Return the literal 0.0."""
        return Const(0.0, "float32")

    def read(self, value: Value, index: Index) -> Expr:
        """Return the value's expression at ``index`` under the bounds in force."""
        if value in self._members and value is not self._current:
            self.accesses.append((value, index))
            if isinstance(value, Reduce | Scan):
                return StageValue(value.name, value.dtype)  # type: ignore[arg-type]  # checked on entry
        elif value in self._stored:
            return self._load(value, index)
        key = (value, index, self._bounds)
        if key not in self._memo:
            self._memo[key] = self._inline(value, index)
        return self._memo[key]

    def read_reshaped(self, value: Value, flat: Affine) -> Expr:
        """Return the element at row-major position ``flat``."""
        if value in self._stored and value not in self._members and self._is_contiguous(value):
            return self._load_flat(value, flat)
        try:
            index = unflatten(flat, value.shape, self.sizes)
        except NotAffineError as error:
            raise BlockedError(value, self._current, str(error)) from error
        return self.read(value, index)

    def guarded(
        self, value: Value, index: Index, checks: Sequence[tuple[Affine, int]], otherwise: Expr
    ) -> Expr:
        """Return the value where every ``0 <= check < size`` holds, else ``otherwise``."""
        bounds: list[Bound] = []
        for check, size in checks:
            low, high = self._span(check, value)
            if high < 0 or low >= size:
                return otherwise
            bound = Bound(check, size)
            if (low < 0 or high >= size) and bound not in self._bounds and bound not in bounds:
                bounds.append(bound)
        if not bounds:
            return self.read(value, index)
        with self._under(tuple(bounds)) as in_force:
            inner = self.read(value, index)
        if isinstance(inner, Load) and inner.bounds == in_force and isinstance(otherwise, Const):
            return replace(inner, otherwise=otherwise.value)
        return self.op("where", Inside(tuple(bounds)), inner, otherwise, dtype=_dtype_of(inner))

    def inside(self, checks: Sequence[tuple[Affine, int]]) -> Expr:
        """Return a boolean: every ``0 <= check < size`` holds."""
        bounds = tuple(Bound(check, size) for check, size in checks)
        if any(self._is_dynamic(bound.index) for bound in bounds):
            raise BlockedError(self._current, self._current, "a mask at a data-dependent index")
        return Inside(bounds)

    def dynamic_axis(self, position: Expr, size: int) -> Affine:
        """Return an index that stands for a computed position in ``[0, size)``."""
        name = f"@{len(self._dynamic)}"
        for known, expr in self._dynamic.items():
            if expr == position and self.sizes[known] == size:
                return axis(known)
        self._dynamic[name] = position
        self.sizes[name] = size
        return axis(name)

    def position(self, index: Affine, dtype: DType) -> Expr:
        """Return an index as a number; computed positions in it become operations."""
        fixed = Affine(tuple(t for t in index.terms if not t[0].startswith("@")), index.offset)
        total: Expr = IndexValue(fixed, dtype)
        for name, factor in index.terms:
            if name.startswith("@"):
                moved = self._dynamic[name]
                moved = moved if _dtype_of(moved) == dtype else self.op("cast", moved, dtype=dtype)
                number = Const(float(factor) if dtype.startswith(("float", "bfloat")) else factor, dtype)
                moved = moved if factor == 1 else self.op("mul", moved, number, dtype=dtype)
                total = self.op("add", total, moved, dtype=dtype)
        return total

    def op(self, name: str, *args: Expr, dtype: DType) -> Expr:
        """Return an operation; equal ones are one object."""
        made = Op(name, args, dtype)
        return self._interned.setdefault(made, made)

    def _inline(self, value: Value, index: Index) -> Expr:
        if not isinstance(value, Inline):
            raise BlockedError(value, self._current, "read outside its region before it is stored")
        expr = value.compute(self, index)
        self.evaluated[value] = expr
        if self._size(expr) > MAX_TREE and value is not self._current:
            raise BlockedError(value, self._current, "its expression is too large to repeat")
        return expr

    def _size(self, expr: Expr) -> int:
        if not isinstance(expr, Op):
            return 1
        if expr not in self._sizes_of:
            self._sizes_of[expr] = 1 + sum(self._size(arg) for arg in expr.args)
        return self._sizes_of[expr]

    def _is_contiguous(self, value: Value) -> bool:
        _, stride = self._stored[value]
        wanted = contiguous_strides(value.shape)
        return all(n == 1 or s == w for n, s, w in zip(value.shape, stride, wanted, strict=True))

    def _load(self, value: Value, index: Index) -> Expr:
        return self._load_flat(value, flatten(index, self._stored[value][1]))

    def _load_flat(self, value: Value, flat: Affine) -> Expr:
        fixed = Affine(tuple(t for t in flat.terms if not t[0].startswith("@")), flat.offset)
        dynamic = tuple((self._dynamic[n], c) for n, c in flat.terms if n.startswith("@"))
        load = Load(self._stored[value][0], fixed, value.dtype, self._bounds, dynamic=dynamic)  # type: ignore[arg-type]
        return self._interned.setdefault(load, load)

    def _span(self, check: Affine, value: Value) -> tuple[int, int]:
        if self._is_dynamic(check):
            raise BlockedError(value, self._current, "bounds at a data-dependent index")
        return span(check, self.sizes)

    @staticmethod
    def _is_dynamic(index: Affine) -> bool:
        return any(name.startswith("@") for name, _ in index.terms)

    @contextmanager
    def _under(self, bounds: tuple[Bound, ...]) -> Iterator[tuple[Bound, ...]]:
        before = self._bounds
        self._bounds = before + bounds
        try:
            yield self._bounds
        finally:
            self._bounds = before


def _dtype_of(expr: Expr) -> DType:
    return "bool" if isinstance(expr, Inside) else expr.dtype
