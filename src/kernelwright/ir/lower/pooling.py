"""Pooling: reductions of a view that shows each output its window."""

from collections.abc import Sequence
from typing import Any

from kernelwright.ir.lower.affine import Index, add, contiguous_strides, flatten, scale, shift
from kernelwright.ir.lower.maker import Maker, require_float
from kernelwright.ir.lower.pointwise import Emit, UnsupportedError
from kernelwright.ir.lower.registry import Made, handles
from kernelwright.ir.lower.values import Reader, Value
from kernelwright.ir.program import Affine, Expr


class _Window:
    """Geometry of one pooling operator; every list has one entry per spatial dimension."""

    def __init__(
        self, x: Value, out: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any
    ) -> None:
        self.spatial = len(_many(kernel)) if not isinstance(kernel, int) else len(out)
        self.kernel = _many(kernel, self.spatial)
        self.stride = _many(stride, self.spatial) or self.kernel
        self.padding = _many(padding, self.spatial)
        self.dilation = _many(dilation, self.spatial)
        self.lead = len(x.shape) - self.spatial
        self.size = list(x.shape[self.lead :])
        self.out = list(out)

    def starts(self, index: Index) -> list[Affine]:
        """Return the first input position of the window of an output index."""
        outs = index[self.lead : self.lead + self.spatial]
        return [shift(scale(o, s), -p) for o, s, p in zip(outs, self.stride, self.padding, strict=True)]

    def positions(self, index: Index) -> list[Affine]:
        """Return the input positions of an index of the windowed view."""
        steps = index[self.lead + self.spatial :]
        return [
            add(start, scale(step, d))
            for start, step, d in zip(self.starts(index), steps, self.dilation, strict=True)
        ]

    @property
    def dims(self) -> tuple[int, ...]:
        """Dimensions of the windowed view that run inside the window."""
        first = self.lead + self.spatial
        return tuple(range(first, first + self.spatial))

    @property
    def overlaps(self) -> bool:
        """Whether an input element may belong to several windows."""
        return any(s < k for s, k in zip(self.stride, self.kernel, strict=True))


def _many(value: Any, count: int = 0) -> list[int]:
    if isinstance(value, int):
        return [value] * count
    values = list(value)
    return values * count if len(values) == 1 and count > 1 else values


def _windowed(make: Maker, x: Value, window: _Window, fill: float) -> Value:
    shape = (*x.shape[: window.lead], *window.out, *window.kernel)

    def compute(reader: Reader, index: Index) -> Expr:
        where = window.positions(index)
        checks = list(zip(where, window.size, strict=True))
        outside = Emit(x.dtype, reader.op).number(fill)  # type: ignore[arg-type]  # a float dtype
        return reader.guarded(x, (*index[: window.lead], *where), checks, outside)

    return make.inline([x], compute, shape, x.dtype, window=window.overlaps)


@handles("max_pool2d_with_indices")
def max_pool_2d(make: Maker, x: Value, kernel: Any, *geometry: Any) -> Made:
    return _max_pool(make, x, 2, kernel, *geometry)


@handles("max_pool3d_with_indices")
def max_pool_3d(make: Maker, x: Value, kernel: Any, *geometry: Any) -> Made:
    return _max_pool(make, x, 3, kernel, *geometry)


def _max_pool(
    make: Maker,
    x: Value,
    spatial: int,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Made:
    require_float(x)
    window = _Window(x, make.shape[-spatial:], _many(kernel, spatial), stride, padding, dilation)
    view = _windowed(make, x, window, float("-inf"))
    values = make.reduce(view, window.dims, "max")
    if any(window.padding) or ceil_mode:
        return values, None  # where all of a window is -inf, its padding must not be the place of the maximum
    strides = contiguous_strides(window.size)

    def position(index: Index) -> Affine:
        return flatten(window.positions(index), strides)

    return values, make.reduce(view, window.dims, "argmax", "int64", position)


@handles("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    make: Maker,
    x: Value,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    require_float(x)
    spatial = len(kernel)
    window = _Window(x, make.shape[-spatial:], kernel, stride, padding, 1)
    total = make.reduce(_windowed(make, x, window, 0.0), window.dims, "sum")
    plain = not any(window.padding) or (count_include_pad and not ceil_mode)
    if divisor is not None or (plain and not ceil_mode):
        count = divisor or _product(window.kernel)
        return make.pointwise(lambda e, s: e("div", s, e.number(count)), total)
    return _divided_by_count(make, total, window, count_include_pad)


def _divided_by_count(make: Maker, total: Value, window: _Window, include_pad: bool) -> Value:
    def compute(reader: Reader, index: Index) -> Expr:
        whole, real = Emit("int64", reader.op), Emit(make.dtype, reader.op)
        count: Expr = whole.number(1)
        for d, start in enumerate(window.starts(index)):
            count = whole("mul", count, _extent(reader, start, window, d, include_pad))
        return real("div", reader.read(total, index), real("cast", count))

    return make.inline([total], compute)


def _extent(reader: Reader, start: Affine, window: _Window, d: int, include_pad: bool) -> Expr:
    """Return how many positions of a window count along one dimension."""
    e = Emit("int64", reader.op)
    last = window.size[d] + (window.padding[d] if include_pad else 0)
    end = e("min", reader.position(shift(start, window.kernel[d]), "int64"), e.number(last))
    begin = reader.position(start, "int64")
    return e("sub", end, begin if include_pad else e("max", begin, e.number(0)))


@handles("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d")
def adaptive_avg_pool(make: Maker, x: Value, out: Sequence[int]) -> Value:
    require_float(x)
    spatial = len(out)
    sizes = x.shape[-spatial:]
    if any(n % o for n, o in zip(sizes, out, strict=True)):
        raise UnsupportedError("windows of unequal size")
    kernel = [n // o for n, o in zip(sizes, out, strict=True)]
    return avg_pool(make, x, kernel)


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
