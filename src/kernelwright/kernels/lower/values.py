"""What a graph computes, as values that can be asked for their expression at any index."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from kernelwright.kernels.ir import Affine, Combine, Expr
from kernelwright.kernels.lower.affine import Index

if TYPE_CHECKING:
    from kernelwright.kernels.lower.reader import Reader

Compute: TypeAlias = Callable[["Reader", Index], Expr]
"""The value's expression at an index; reads its inputs through the reader."""


@dataclass(eq=False)
class Value:
    """A tensor of the graph, or one inside a composite operator. Compared by identity."""

    name: str
    """Unique, and an identifier in every printed language."""
    shape: tuple[int, ...]
    dtype: str
    """A DType, or of a Stored value any torch name."""
    node: str
    """The graph node it belongs to."""


@dataclass(eq=False)
class Stored(Value):
    """A program input or the result of a call."""

    buffer: str = ""
    stride: tuple[int, ...] = ()


@dataclass(eq=False)
class Inline(Value):
    """Pointwise work or a change of index; computed where it is read unless written to memory."""

    inputs: tuple[Value, ...] = ()
    compute: Compute = field(default=lambda reader, index: reader.zero())
    is_view: bool = False
    """Only the index changes."""
    window: bool = False
    """The reader visits each element of the input several times (pooling)."""
    flips: tuple[Value, tuple[int, ...]] | None = None
    """Of a flip: what is flipped, and along which dimensions."""


@dataclass(eq=False)
class Reduce(Value):
    """``source`` combined over ``dims``, which are gone from the shape."""

    source: Value = field(default_factory=lambda: Value("", (), "float32", ""))
    dims: tuple[int, ...] = ()
    combine: Combine = "sum"
    position: Callable[[Index], Affine] | None = None
    """argmax and argmin: the reported index at an index of the source."""


@dataclass(eq=False)
class Scan(Value):
    """``source`` accumulated along ``dim``."""

    source: Value = field(default_factory=lambda: Value("", (), "float32", ""))
    dim: int = 0
    combine: Combine = "sum"
    reverse: bool = False


def sources(value: Value) -> tuple[Value, ...]:
    """Return the values that a value reads directly."""
    if isinstance(value, Inline):
        return value.inputs
    if isinstance(value, Reduce | Scan):
        return (value.source,)
    return ()


def domain(value: Value) -> tuple[int, ...]:
    """Return the shape that is iterated to compute a value."""
    return value.source.shape if isinstance(value, Reduce) else value.shape
