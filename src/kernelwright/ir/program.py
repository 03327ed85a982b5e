"""The loop IR: what a generated kernel computes (regions of stages) and how (its schedule).

A Program is a straight line of steps over named buffers. A step is a Call (a library anchor or an
operator that stays with torch) or a Region (one generated function). A Region iterates its *kept*
axes; at each kept point its stages run in order, each over its own subset of the *inner* axes.

Examples, writing kept | inner:
  relu(x + b) on [4096, 512]   kept i, j |            one map stage over no inner axis
  softmax over dim 1           kept i    | j          reduce max, reduce sum, map
  sum over dim 0 of [N, C]     kept c    | n          reduce, stored at c ("column" reduction)
  max_pool2d                   kept n c y x | ky kx   reduce with bounded loads
  cumsum over dim 1            kept i    | j          scan along j
  mean over everything         kept      | i j        reduce, stored once
  attention                    kept n h q | k e d     reduce sum over e per k, max over k, sum over k,
                                                      reduce sum over k per d, map over d
  recurrent layer              kept       | t b j k e  one step along t after the other: reduce sums over
                                                      e and over k per t b j, map over t b j

Pointwise work before a reduction lives in the stage's expression, work after it in later stages.
Everything is frozen and hashable: common subexpressions are equal objects, schedules are data.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

DType: TypeAlias = Literal["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]
"""Element types that generated code handles; a graph with others keeps those nodes as Calls."""


@dataclass(frozen=True)
class Axis:
    """A loop variable running from 0 to ``size`` (exclusive)."""

    name: str
    size: int


@dataclass(frozen=True)
class Affine:
    """``offset + sum(coefficient * axis)``; terms sorted by axis name, no zero coefficients."""

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0


@dataclass(frozen=True)
class Bound:
    """The condition ``0 <= index < size``."""

    index: Affine
    size: int


@dataclass(frozen=True)
class Const:
    """A literal; floats may be infinite."""

    value: float | int | bool
    dtype: DType


@dataclass(frozen=True)
class Load:
    """Element ``index`` of a buffer, counted in elements from its first one.

    Where a bound fails, memory is not touched and the value is ``otherwise`` (padding). ``dynamic``
    adds data-dependent terms (value, stride), e.g. a class index; the value is trusted to be in range
    because the reference would have raised otherwise.
    """

    buffer: str
    index: Affine
    dtype: DType
    bounds: tuple[Bound, ...] = ()
    otherwise: float | int | bool = 0
    dynamic: tuple[tuple["Expr", int], ...] = ()


@dataclass(frozen=True)
class IndexValue:
    """The value of an affine index itself (arange, positions)."""

    index: Affine
    dtype: DType


@dataclass(frozen=True)
class Inside:
    """True where all bounds hold (concatenation, triangular masks)."""

    bounds: tuple[Bound, ...]


@dataclass(frozen=True)
class Op:
    """A pointwise operation of OPS on expressions of the same iteration point."""

    name: str
    args: tuple["Expr", ...]
    dtype: DType

    def __hash__(self) -> int:
        """Return the hash, computed once: expressions are deep and share their parts."""
        known = self.__dict__.get("_hash")
        if known is None:
            known = hash((self.name, self.args, self.dtype))
            object.__setattr__(self, "_hash", known)
        return int(known)


@dataclass(frozen=True)
class StageValue:
    """The result of an earlier stage of the same region.

    A reduce stage gives one value per kept point, or several there (``LoopStage.per``). A map or scan stage
    gives the value at the current inner point; the reader must iterate the same inner axes (the printer
    keeps a row in scratch, or merges the loops, or computes it again: that is the schedule's choice).
    """

    stage: str
    dtype: DType


Expr: TypeAlias = Const | Load | IndexValue | Inside | Op | StageValue

OPS: dict[str, int] = {
    # arithmetic: name -> number of arguments
    "add": 2, "sub": 2, "mul": 2, "div": 2, "neg": 1, "abs": 1, "reciprocal": 1, "fma": 3,
    "min": 2, "max": 2,  # NaN propagates, as torch.minimum does
    "floor": 1, "ceil": 1, "round": 1, "trunc": 1, "sign": 1, "fmod": 2, "remainder": 2,
    "floordiv": 2,  # integers, towards minus infinity
    "sqrt": 1, "rsqrt": 1, "square": 1,
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1,
    "sin": 1, "cos": 1, "tan": 1, "tanh": 1, "sinh": 1, "cosh": 1, "atan": 1, "asin": 1, "acos": 1,
    "erf": 1, "sigmoid": 1, "softplus": 1,  # softplus: log(1 + exp(x)), overflow-safe
    "pow": 2,
    # comparison and logic (dtype bool) and selection
    "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2,
    "and": 2, "or": 2, "not": 1, "xor": 2, "isnan": 1, "isinf": 1,
    "where": 3,  # condition, then, else
    "cast": 1,  # to Op.dtype; float to integer truncates, to bool compares with 0
}  # fmt: skip
"""Pointwise operations the printers know. Everything else is composed of them or stays a Call."""

TRANSCENDENTALS = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sinh",
        "cosh",
        "atan",
        "asin",
        "acos",
        "erf",
        "sigmoid",
        "softplus",
        "pow",
    ]
)
"""Operations that cost tens of instructions."""

Combine: TypeAlias = Literal["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"]
"""How a reduce or scan stage combines. argmax and argmin give int64 and the first position on ties;
max and min propagate NaN."""


@dataclass(frozen=True)
class StoreTo:
    """Where a stage's value is written: element ``index`` of a buffer."""

    buffer: str
    index: Affine


@dataclass(frozen=True)
class LoopStage:
    """One pass over some inner axes at each kept point."""

    name: str
    kind: Literal["map", "reduce", "scan"]
    axes: tuple[str, ...]
    """Inner axes it iterates, outermost first. Empty: once per kept point."""
    expr: Expr
    """Value at each point; of a reduce or scan: what is combined."""
    dtype: DType
    combine: Combine | None = None
    position: Affine | None = None
    """argmax and argmin: the index that is reported for the current inner point."""
    scan_axis: str | None = None
    """The axis a scan runs along; its other axes are independent."""
    reverse: bool = False
    """The scan runs from the last element to the first."""
    stores: tuple[StoreTo, ...] = ()
    per: tuple[str, ...] = ()
    """Those of ``axes`` at each point of which a reduction gives a value of its own (attention)."""


@dataclass(frozen=True)
class Schedule:
    """How a region is carried out. No choice in it can change the result's meaning.

    Each language has fields of its own in a subclass, None where its printer decides by documented rules.
    This class itself leaves everything to them.
    """


@dataclass(frozen=True)
class Region:
    """One generated function."""

    name: str
    """Stable across plans where possible: ``r_`` + name of the graph node that ends it."""
    kept: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    stages: tuple[LoopStage, ...]
    schedule: Schedule = Schedule()
    sequence: str | None = None
    """The inner axis that all stages take a step along before any takes the next one (recurrences): what they
    load of their own results is of the step before."""
    comment: str = ""
    """The operators that it computes, e.g. ``addmm -> gelu -> mean(1)``."""


@dataclass(frozen=True)
class BufferRef:
    """A tensor argument or result of a Call."""

    buffer: str


CallArg: TypeAlias = "BufferRef | bool | int | float | str | tuple[CallArg, ...] | None"
"""Argument of a Call. Strings are printed verbatim (``torch.float32``)."""


@dataclass(frozen=True)
class Call:
    """A call of torch, or of a helper function printed into the candidate."""

    name: str
    target: str
    """Printed verbatim: ``torch.ops.aten.mm.default`` or the name of a helper."""
    args: tuple[CallArg, ...]
    results: tuple[str | None, ...]
    """Buffers it defines; None: that element is not used."""
    kwargs: tuple[tuple[str, CallArg], ...] = ()
    helper: str | None = None
    """Source of the helper function, torch only; printed once."""
    is_view: bool = False
    """The result aliases the first argument; costs nothing."""
    returns_list: bool = False
    """The results are elements of a list or tuple, which may have one element."""


@dataclass(frozen=True)
class Buffer:
    """A tensor by name. Generated code counts elements from its first one, with these strides."""

    name: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    """torch's name; regions read and write only those of DType."""
    kind: Literal["input", "parameter", "buffer", "constant", "temporary"]
    source: str | int | None = None
    """As in tasks.capture.Placeholder; None for a temporary."""


@dataclass(frozen=True)
class Program:
    """What a candidate's forward does for one workload."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Call | Region, ...]
    outputs: tuple[str | None, ...]
    """Buffer per user output; it is a fresh dense tensor, or None for a constant None."""
    returns_tuple: bool
    mutations: tuple[tuple[str, str], ...] = ()
    """(state-dict name of a buffer, buffer that holds its new value)."""
    constants: dict[str, object] = field(default_factory=dict, hash=False, compare=False)
    """Constant name -> torch.Tensor, for kind ``constant``."""
    given_up: str | None = field(default=None, hash=False, compare=False)
    """Why lowering generated no code and left the whole graph to torch; None when it did not give up."""

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name; a KeyError is an error in Kernelwright."""
        return next(b for b in self.buffers if b.name == name)
