"""Triton text of expressions: operators, literals, indices, masks."""

import keyword
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.core.errors import LoweringError
from kernelwright.ir.dag import Dag, DagNode
from kernelwright.ir.program import Affine, DType
from kernelwright.ir.text import Names, Renderer, affine_text, bare, extent

LONG_NAME = 28
"""Names of buffers beyond this are shortened."""
REPEATS = frozenset({"square", "isnan", "pow"})
"""Operations whose text names an argument more than once."""
FLOATS = ("float32", "float64")
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_TEMPLATES = {
    "neg": "(-{0})",
    "not": "({0} == 0)",
    "reciprocal": "(1.0 / {0})",
    "fma": "({0} * {1} + {2})",
    "isnan": "({0} != {0})",
    "square": "({0} * {0})",
    "one_plus_erf": "(1.0 + tl.erf({0}))",
}
_CALLS = {
    "abs": "tl.abs", "floor": "tl.floor", "ceil": "tl.ceil", "sqrt": "tl.sqrt", "rsqrt": "tl.rsqrt",
    "exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log", "log2": "tl.log2", "sin": "tl.sin", "cos": "tl.cos",
    "erf": "tl.erf", "sigmoid": "tl.sigmoid", "where": "tl.where",
    "min": "nan_min", "max": "nan_max", "round": "round_half_even", "trunc": "trunc", "sign": "sign",
    "remainder": "remainder", "floordiv": "floor_divide", "expm1": "expm1", "log1p": "log1p",
    "log10": "log10", "tan": "tan", "tanh": "tanh", "sinh": "sinh", "cosh": "cosh", "atan": "atan",
    "asin": "asin", "acos": "acos", "softplus": "softplus", "tanh_softplus": "tanh_softplus",
}  # fmt: skip
_POWERS = {
    1.0: "{0}", 2.0: "({0} * {0})", 3.0: "({0} * {0} * {0})", 4.0: "({0} * {0} * ({0} * {0}))",
    0.5: "tl.sqrt({0})", 0.75: "(tl.sqrt({0}) * tl.sqrt(tl.sqrt({0})))", -0.5: "tl.rsqrt({0})",
    -1.0: "(1.0 / {0})", -2.0: "(1.0 / ({0} * {0}))",
}  # fmt: skip
_FLOAT32_ONLY = frozenset({"pow"})
"""Operations whose functions in the prelude are no more exact than float32 whatever they are given."""
_IN_DOUBLE = frozenset({"expm1", "tanh", "sinh", "atan", "asin", "acos", "round"})
"""Operations with a function of their own for float64."""
_ROUNDED = frozenset({"floor", "ceil", "round", "trunc"})
_OUR_WORDS = (
    "tl triton torch nn self math base64 float int bool abs min max sum product nan_max nan_min expm1 log1p "
    "log10 tanh softplus tanh_softplus sinh cosh tan atan asin acos power round_half_even trunc sign "
    "remainder floor_divide expm1_64 tanh_64 sinh_64 atan_64 asin_64 acos_64 round_half_even_64"
)
_RESERVED = frozenset(keyword.kwlist) | frozenset(_OUR_WORDS.split())


class PythonNames(Names):
    """Unique Python identifiers, freed when the scope they were made in ends."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        super().__init__()
        self._scopes = [set(taken) | _RESERVED]


def short(name: str) -> str:
    """Return a buffer's name as a variable; of a long one the initials and the last word."""
    *first, last = name.strip("_").split("_")
    return name if len(name) <= LONG_NAME else "".join(word[:1] for word in first) + f"_{last}"


@dataclass(frozen=True)
class Flat:
    """Axes that one variable runs over, the last one fastest, as a dimension of the tile."""

    name: str
    axes: tuple[str, ...]
    mask: str
    """Variable that is true where the variable lies within its range."""


def dtype_text(dtype: DType) -> str:
    """Return Triton's name of an element type."""
    return "tl.int1" if dtype == "bool" else f"tl.{dtype}"


def literal(value: float | int | bool, dtype: DType) -> str:
    """Return a constant as Python."""
    if dtype == "bool":
        return str(bool(value))
    if dtype not in FLOATS:
        return str(int(value))
    number = float(value)
    if math.isnan(number):
        return 'float("nan")'
    with np.errstate(over="ignore"):
        number = number if dtype == "float64" else float(np.float32(number))
    if math.isinf(number):
        return 'float("-inf")' if number < 0 else 'float("inf")'
    text = repr(number) if dtype == "float64" else str(np.float32(number))
    return text if "." in text or "e" in text else text + ".0"


class TritonRenderer(Renderer):
    """Text of nodes, given which of them have names already."""

    def __init__(
        self,
        dag: Dag,
        buffers: Mapping[str, str],
        axes: Mapping[str, str],
        ranges: Mapping[str, tuple[int, int]],
        sizes: Mapping[str, int],
    ) -> None:
        super().__init__(dag, buffers, axes, ranges)
        self.sizes = dict(sizes)
        self.flats: list[Flat] = []
        """Dimensions of the tile being printed: kept points, then inner points."""
        self.policy: dict[str, str] = {}
        """Buffer -> eviction policy of its loads in the loop being printed, from which results go first."""
        self.serial: frozenset[str] = frozenset()
        """Axes that a plain loop runs along: what depends on them alone may be a Python number."""

    def index(self, index: Affine) -> str:
        """Return the text of an index; axes that a flat variable covers in order become that variable."""
        terms, names = dict(index.terms), dict(self.axes)
        for flat in self.flats:
            factor = self._factor(terms, flat.axes)
            if factor is not None and len(flat.axes) > 1:
                terms = {a: c for a, c in terms.items() if a not in flat.axes} | {flat.name: factor}
                names[flat.name] = flat.name
        ordered = sorted(terms.items(), key=lambda term: (-abs(term[1]), term[0]))
        return affine_text(Affine(tuple(ordered), index.offset), names, wide=False)

    def _factor(self, terms: Mapping[str, int], axes: Sequence[str]) -> int | None:
        """Return by how much the index grows per point where the axes are traversed in order."""
        factor = step = terms.get(axes[-1], 0) if axes else 0
        for axis in reversed(axes):
            if terms.get(axis, 0) != step or not step:
                return None
            step *= self.sizes[axis]
        return factor

    def text(self, number: int) -> str:
        """Return an expression that may stand anywhere (in parentheses where needed)."""
        known = self.bound(number)
        if known is not None:
            return known
        node = self.dag.nodes[number]
        match node.kind:
            case "const":
                return literal(node.value, node.dtype)
            case "index":
                return self._index_value(node)
            case "bound":
                return self._bound(node)
            case "load":
                return self._load(number, node)
            case "op":
                return self._op(node)
        raise LoweringError(f"the Triton printer has no value for {node.kind} {node.name} here")

    # -- memory ------------------------------------------------------------------------------------

    def dims(self, axes: Iterable[str]) -> list[Flat]:
        """Return the dimensions of the tile along which something that uses these axes varies."""
        used = set(axes)
        return [flat for flat in self.flats if flat.mask and used & set(flat.axes)]

    def pointer(self, buffer: str, index: str, has: Sequence[Flat], needs: Sequence[Flat]) -> str:
        """Return the address; dimensions that the index lacks but the mask or value has are added."""
        missing = "".join(f" + 0 * {flat.name}" for flat in needs if flat not in has)
        start = "" if index == "0" else f" + {index}"
        return f"{self.buffers[buffer]}{start}{missing}"

    def _load(self, number: int, node: DagNode) -> str:
        n_bounds = len(node.args) - len(node.strides)
        index = self.index(node.index)
        axes = {axis for axis, _ in node.index.terms}
        for arg, stride in zip(node.args[n_bounds:], node.strides, strict=True):
            index += f" + {self.text(arg)}" + (f" * {stride}" if stride != 1 else "")
            axes |= self.dag.axes[arg]
        has = self.dims(axes)
        guards = [a for a in self.live_args(number) if a in node.args[:n_bounds]]
        needs = [flat for flat in self.flats if flat.mask and not flat.axes]  # one point, as a vector
        needs += self.dims(axes.union(*(self.dag.axes[g] for g in guards)))
        masks = [flat.mask for flat in needs] + [self.text(g) for g in guards]
        address = self.pointer(node.name, index, has, needs)
        if not masks:
            return f"tl.load({address})"
        other = literal(node.value, node.dtype) if guards else literal(0, node.dtype)
        other = "0" if node.dtype == "bool" and other == "False" else other
        policy = self.policy.get(node.name)
        hint = f', eviction_policy="{policy}"' if policy else ""
        return f"tl.load({address}, mask={joined(masks)}, other={other}{hint})"

    # -- values ------------------------------------------------------------------------------------

    def _index_value(self, node: DagNode) -> str:
        text = self.index(node.index)
        if not node.index.terms:
            return literal(node.index.offset, node.dtype)
        return f"tl.cast({text}, {dtype_text(node.dtype)})"

    def _bound(self, node: DagNode) -> str:
        low, high = extent(node.index, self.ranges)
        index = self.index(node.index)
        if low >= 0 and high < node.size:
            return "True"
        if low >= 0:
            return f"({index} < {node.size})"
        if high < node.size:
            return f"({index} >= 0)"
        return f"(({index} >= 0) & ({index} < {node.size}))"

    def _op(self, node: DagNode) -> str:
        args = self._arguments(node)
        if node.name in _FLOAT32_ONLY and node.dtype == "float64":
            raise LoweringError(f"the Triton printer has no float64 {node.name}")
        if node.name in _INFIX:
            return f"({args[0]} {_INFIX[node.name]} {args[1]})"
        if node.name in _TEMPLATES:
            inside = [bare(a) for a in args] if node.name == "one_plus_erf" else args
            return _TEMPLATES[node.name].format(*inside)
        match node.name:
            case "cast":
                return self._cast(node, args[0], self._may_be_number(node.args[0]))
            case "pow":
                return self._power(node, args)
            case "isinf":
                return f'(tl.abs({args[0]}) == float("inf"))'
            case "fmod":
                return f"({args[0]} % {args[1]})"
        if node.name in _ROUNDED and node.dtype not in FLOATS:
            return args[0]
        if node.name == "floordiv" and node.dtype in FLOATS:
            return f"tl.floor({args[0]} / {args[1]})"
        if node.name not in _CALLS:
            raise LoweringError(f"operation {node.name!r} is not known to the Triton printer")
        own = "_64" if node.name in _IN_DOUBLE and node.dtype == "float64" else ""
        call = f"{_CALLS[node.name]}{own}({', '.join(bare(a) for a in args)})"
        values = [self.dag.nodes[a] for a in node.args]
        plain = node.name == "where" and all(v.kind == "const" for v in values[1:])
        return f"{call}.to({dtype_text(node.dtype)})" if plain and node.dtype != "float32" else call

    def _arguments(self, node: DagNode) -> list[str]:
        """Return the arguments' texts; a call of constants alone needs one of them as a tensor."""
        nodes = [self.dag.nodes[a] for a in node.args]
        texts = [self.text(a) for a in node.args]
        all_const = all(n.kind == "const" for n in nodes)
        for position, entry in enumerate(nodes):
            is_wide = entry.kind == "const" and entry.dtype == "float64"
            if entry.kind == "const" and ((all_const and position == 0) or is_wide):
                texts[position] = f"tl.full((), {texts[position]}, {dtype_text(entry.dtype)})"
        return texts

    def _may_be_number(self, number: int) -> bool:
        kinds = {self.dag.nodes[n].kind for n in self.dag.needed([number])}
        return self.dag.axes[number] <= self.serial and kinds <= {"op", "bound", "const"}

    def _cast(self, node: DagNode, text: str, is_number: bool) -> str:
        if node.dtype == "bool":
            return f"({text} != 0)"
        if is_number:
            return f"tl.cast({bare(text)}, {dtype_text(node.dtype)})"
        return f"{text}.to({dtype_text(node.dtype)})"

    def _power(self, node: DagNode, args: Sequence[str]) -> str:
        exponent = self.dag.nodes[node.args[1]]
        value = float(exponent.value) if exponent.kind == "const" else None
        if value in _POWERS and (node.dtype in FLOATS or (value or 0) in (1.0, 2.0, 3.0, 4.0)):
            return _POWERS[value or 1.0].format(args[0])
        if node.dtype not in FLOATS:
            raise LoweringError("the Triton printer has no general power of integers")
        return f"power({', '.join(bare(a) for a in args)})"


def joined(conditions: Sequence[str]) -> str:
    """Return all conditions as one, at the outermost level."""
    texts = [c for c in conditions if c != "True"]
    return bare(texts[0]) if len(texts) == 1 else " & ".join(texts)
