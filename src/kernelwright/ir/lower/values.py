"""What a graph computes, as values that can be asked for their expression at any index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from kernelwright.ir.lower.affine import Index, contiguous_strides
from kernelwright.ir.program import Affine, Combine, DType, Expr

Compute: TypeAlias = Callable[["Reader", Index], Expr]
"""The value's expression at an index; reads its inputs through the reader."""
Cell: TypeAlias = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
"""What a step of a recurrent layer computes, by torch's name."""


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
    stride: tuple[int, ...] | None = field(default=None, kw_only=True)
    """Where elements lie in memory once they are there; None: row-major."""


@dataclass(eq=False)
class Stored(Value):
    """A program input or the result of a call."""

    buffer: str = ""


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
    is_product: bool = False
    """A matrix product or convolution: alone in its region but for what reads it."""


@dataclass(eq=False)
class Scan(Value):
    """``source`` accumulated along ``dim``."""

    source: Value = field(default_factory=lambda: Value("", (), "float32", ""))
    dim: int = 0
    combine: Combine = "sum"
    reverse: bool = False


@dataclass(eq=False)
class Attention(Value):
    """``softmax(scale * query key^T + mask) value`` over the last two dimensions; alone in its region.

    A row that sees no key is zero, as ``scaled_dot_product_attention`` has it.
    """

    operands: tuple[Value, Value, Value] = ()  # type: ignore[assignment]  # always given
    """Query, key and value."""
    scale: float = 1.0
    mask: Value | None = None
    """Added where it is float32; where it is a boolean, keys at which it is false are not seen."""
    is_causal: bool = False
    """Row ``i`` sees the keys up to ``i``."""
    groups: int = 1
    """Heads of the query that share one of the key and the value."""


@dataclass(eq=False)
class Recurrence(Value):
    """One direction of a recurrent layer, steps by rows by units; with its cell state alone in its region."""

    cell: Cell = "lstm"
    given: Value = field(default_factory=lambda: Value("", (), "float32", ""))
    """Steps by rows by features."""
    weights: tuple[Value, Value] = ()  # type: ignore[assignment]  # always given
    """Gates times units by features, and gates times units by units."""
    biases: tuple[Value, ...] = ()
    """Two of gates times units, or none."""
    before: tuple[Value, ...] = ()
    """What each state is before the first step, rows by units: of an LSTM the cell's after the hidden one."""
    is_reversed: bool = False
    """From the last step to the first."""
    state: "CellState | None" = None
    """Of an LSTM."""


@dataclass(eq=False)
class CellState(Value):
    """The cell state of an LSTM after its last step, rows by units."""

    of: Recurrence = field(default_factory=lambda: Recurrence("", (), "float32", ""))


def sources(value: Value) -> tuple[Value, ...]:
    """Return the values that a value reads directly."""
    if isinstance(value, Inline):
        return value.inputs
    if isinstance(value, Reduce | Scan):
        return (value.source,)
    if isinstance(value, Attention):
        return value.operands if value.mask is None else (*value.operands, value.mask)
    if isinstance(value, Recurrence):
        return (value.given, *value.weights, *value.biases, *value.before)
    return (value.of,) if isinstance(value, CellState) else ()


def domain(value: Value) -> tuple[int, ...]:
    """Return the shape that is iterated to compute a value."""
    if isinstance(value, Attention):
        return (*value.shape, value.operands[1].shape[-2])
    if isinstance(value, Recurrence):
        return (*value.shape, value.shape[-1])
    return value.source.shape if isinstance(value, Reduce) else value.shape


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Return whether the elements fill their memory without gaps or overlaps, in any order."""
    step = 1
    for stride_, size in sorted((s, n) for n, s in zip(shape, stride, strict=True) if n != 1):
        if stride_ != step:
            return False
        step *= size
    return True


def placement(value: Value) -> tuple[str, tuple[int, ...]]:
    """Return the buffer that holds a value and its strides."""
    name = value.buffer if isinstance(value, Stored) else value.name
    return name, contiguous_strides(value.shape) if value.stride is None else value.stride


class BlockedError(Exception):
    """``value`` must be in memory (or, if it is, its reader cannot be generated)."""

    def __init__(self, value: Value, reader: Value | None, why: str) -> None:
        super().__init__(f"{value.name}: {why}")
        self.value = value
        self.reader = reader


class Reader(Protocol):
    """What a value asks for the expressions of its inputs; raises BlockedError where there is none."""

    sizes: dict[str, int]
    """Loop axis -> iterations."""

    def zero(self) -> Expr:
        """Return the literal 0.0."""
        ...

    def read(self, value: Value, index: Index) -> Expr:
        """Return the value's expression at ``index`` under the bounds in force."""
        ...

    def read_reshaped(self, value: Value, flat: Affine) -> Expr:
        """Return the element at row-major position ``flat``."""
        ...

    def guarded(
        self, value: Value, index: Index, checks: Sequence[tuple[Affine, int]], otherwise: Expr
    ) -> Expr:
        """Return the value where every ``0 <= check < size`` holds, else ``otherwise``."""
        ...

    def inside(self, checks: Sequence[tuple[Affine, int]]) -> Expr:
        """Return a boolean: every ``0 <= check < size`` holds."""
        ...

    def dynamic_axis(self, position: Expr, size: int) -> Affine:
        """Return an index that stands for a computed position in ``[0, size)``."""
        ...

    def position(self, index: Affine, dtype: DType) -> Expr:
        """Return an index as a number; computed positions in it become operations."""
        ...

    def op(self, name: str, *args: Expr, dtype: DType) -> Expr:
        """Return an operation; equal ones are one object."""
        ...
