"""C++ text of expressions: operators, literals, indices, and the variables already bound."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from kernelwright.ir.dag import Dag, Node
from kernelwright.ir.program import Affine, DType

CTYPES: dict[str, str] = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
ELEMENT_CTYPES = CTYPES | {"bool": "uint8_t"}
"""Types in memory: loops that load ``bool`` together with wider types are not vectorised."""
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "&", "or": "|", "xor": "!=",
}  # fmt: skip
CALLS = {
    "abs": "vabs", "floor": "vfloor", "ceil": "vceil", "round": "vround", "trunc": "vtrunc",
    "sign": "vsign", "remainder": "floor_remainder", "floordiv": "floor_divide",
    "sqrt": "vsqrt", "square": "squared", "min": "nanmin", "max": "nanmax",
    "exp": "vexp", "exp2": "vexp2", "expm1": "vexpm1", "log": "vlog", "log2": "vlog2",
    "log10": "vlog10", "log1p": "vlog1p", "sin": "vsin", "cos": "vcos", "tan": "vtan",
    "tanh": "vtanh", "sinh": "vsinh", "cosh": "vcosh", "atan": "vatan", "asin": "vasin",
    "acos": "vacos", "erf": "verf", "sigmoid": "vsigmoid", "softplus": "vsoftplus",
    "tanh_softplus": "vtanh_softplus",
    "one_plus_erf": "vone_plus_erf",
}  # fmt: skip
TEMPLATES = {
    "neg": "(-{0})",
    "not": "(!{0})",
    "reciprocal": "({one} / {0})",
    "rsqrt": "({one} / vsqrt({0}))",
    "fma": "({0} * {1} + {2})",
    "isnan": "({0} != {0})",
    "isinf": "(vabs({0}) == INF)",
    "where": "({0} ? {1} : {2})",
}
_RESERVED_TEXT = (
    "alignas and asm auto bitand bitor bool break case catch char class compl const constexpr continue "
    "default delete do double else enum explicit export extern false float for friend goto if inline int "
    "int64_t int32_t int16_t int8_t uint8_t long mutable namespace new not operator or private protected "
    "public register restrict return short signed sizeof static struct switch template this throw true try "
    "typedef typename union unsigned using virtual void volatile while xor INF LANES squared select "
    "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh atan asin acos erf pow fmod floor ceil "
    "round trunc sqrt abs fabs floorf y0 y1 yn j0 j1 jn gamma lgamma tgamma index"
)
RESERVED = frozenset(_RESERVED_TEXT.split())
"""Words that must not name a variable: keywords, our own, and the C library's built-in functions."""


class Names:
    """Unique C++ identifiers, freed when the scope they were made in ends."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._scopes = [set(taken) | RESERVED]

    def new(self, wanted: str) -> str:
        """Return the wanted name, or the first numbered variant that is free."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted)
        base = base if base and not base[0].isdigit() else f"v{base}"
        name, count = base, 1
        while any(name in scope for scope in self._scopes):
            count += 1
            name = f"{base}_{count}"
        self._scopes[-1].add(name)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Free the names made inside."""
        self._scopes.append(set())
        yield
        self._scopes.pop()


def literal(value: float | int | bool, dtype: DType) -> str:
    """Return a constant as C++."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype not in ("float32", "float64"):
        return f"{int(value)}L" if dtype == "int64" and abs(int(value)) >= 2**31 else str(int(value))
    number = float(value)
    kind = CTYPES[dtype]
    if math.isnan(number):
        return f'({kind})__builtin_nanf("")'
    if math.isinf(number):
        sign = "-" if number < 0 else ""
        return f"{sign}INF" if dtype == "float32" else f"{sign}(double)INF"
    if dtype == "float64":
        return repr(number)
    with np.errstate(over="ignore"):
        single = np.float32(number)
    if np.isinf(single):
        return "-INF" if number < 0 else "INF"
    text = str(single)
    return (text if "." in text or "e" in text else text + ".0") + "f"


def affine_text(index: Affine, names: Mapping[str, str], *, wide: bool) -> str:
    """Return an index expression; ``wide``: in 64-bit arithmetic."""
    parts: list[str] = []
    for axis, factor in index.terms:
        suffix = "L" if wide and abs(factor) != 1 else ""
        name = f"(long){names[axis]}" if wide and abs(factor) == 1 else names[axis]
        term = name if abs(factor) == 1 else f"{name} * {abs(factor)}{suffix}"
        parts.append(("- " if factor < 0 else "+ ") + term)
    if index.offset or not parts:
        parts.append(("- " if index.offset < 0 else "+ ") + str(abs(index.offset)))
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else "-" + text[2:]


def extent(index: Affine, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the smallest and largest value over the ranges (inclusive) of the axes."""
    low = high = index.offset
    for axis, factor in index.terms:
        a, b = ranges[axis]
        low += min(factor * a, factor * b)
        high += max(factor * a, factor * b)
    return low, high


class Renderer:
    """Text of nodes, given which of them have names already."""

    def __init__(
        self,
        dag: Dag,
        buffers: Mapping[str, str],
        axes: Mapping[str, str],
        ranges: Mapping[str, tuple[int, int]],
    ) -> None:
        self.dag = dag
        self.buffers = buffers
        """Buffer -> C++ name of its pointer."""
        self.axes = dict(axes)
        """Axis -> C++ name of its loop variable."""
        self.ranges = dict(ranges)
        """Axis -> smallest and largest value in the code being printed."""
        self.scopes: list[dict[int, str]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget the variables bound inside."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def bind(self, node: int, name: str) -> None:
        """Let the node be known by a variable until the current scope ends."""
        self.scopes[-1][node] = name

    def bound(self, node: int) -> str | None:
        """Return the variable that holds the node."""
        return next((scope[node] for scope in reversed(self.scopes) if node in scope), None)

    def live_args(self, node: int) -> tuple[int, ...]:
        """Return the arguments that need code: conditions that always hold do not."""
        return tuple(
            a
            for a in self.dag.nodes[node].args
            if not (self.dag.nodes[node].kind == "load" and self.always_holds(a))
        )

    def needed(self, roots: Iterable[int]) -> set[int]:
        """Return the nodes that printing the roots would compute, given the bound variables."""
        seen: set[int] = set()
        pending = list(roots)
        while pending:
            number = pending.pop()
            if number in seen or self.bound(number) is not None:
                continue
            seen.add(number)
            pending.extend(self.live_args(number))
        return seen

    def always_holds(self, node: int) -> bool:
        """True for a bound that the ranges of its axes imply."""
        entry = self.dag.nodes[node]
        if entry.kind != "bound":
            return False
        low, high = extent(entry.index, self.ranges)
        return low >= 0 and high < entry.size

    def index(self, index: Affine) -> str:
        """Return the text of an index into memory."""
        low, high = extent(index, self.ranges)
        return affine_text(index, self.axes, wide=max(abs(low), abs(high)) >= 2**31)

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
                return f"({CTYPES[node.dtype]})({self.index(node.index)})"
            case "bound":
                return self._bound_text(node)
            case "load":
                return self._load_text(number, node)
            case "op":
                return self._op_text(node)
        raise KeyError(f"{node.kind} {node.name} has no value here")

    def _bound_text(self, node: Node) -> str:
        low, high = extent(node.index, self.ranges)
        index = self.index(node.index)
        if low >= 0 and high < node.size:
            return "true"
        if low >= 0:
            return f"({index} < {node.size})"
        if high < node.size:
            return f"({index} >= 0)"
        return f"(({index} >= 0) & ({index} < {node.size}))"

    def _load_text(self, number: int, node: Node) -> str:
        index = self.index(node.index)
        n_dynamic = len(node.strides)
        for arg, stride in zip(node.args[len(node.args) - n_dynamic :], node.strides, strict=True):
            index += f" + {self.text(arg)} * {stride}"
        element = f"{self.buffers[node.name]}[{index}]"
        element = f"({element} != 0)" if node.dtype == "bool" else element
        conditions = [a for a in self.live_args(number) if a in node.args[: len(node.args) - n_dynamic]]
        if not conditions:
            return element
        texts = [text for c in conditions if (text := self.text(c)) != "true"]
        if not texts:
            return element
        condition = texts[0] if len(texts) == 1 else f"({' & '.join(texts)})"
        return f"({condition} ? {element} : {literal(node.value, node.dtype)})"

    def _op_text(self, node: Node) -> str:
        args = [self.text(a) for a in node.args]
        if node.name in INFIX:
            return f"({args[0]} {INFIX[node.name]} {args[1]})"
        if node.name in CALLS:
            return f"{CALLS[node.name]}({', '.join(bare(a) for a in args)})"
        if node.name in TEMPLATES:
            return TEMPLATES[node.name].format(*args, one=literal(1, node.dtype))
        match node.name:
            case "fmod":
                is_float = node.dtype in ("float32", "float64")
                return f"vfmod({args[0]}, {args[1]})" if is_float else f"({args[0]} % {args[1]})"
            case "cast":
                return f"({args[0]} != 0)" if node.dtype == "bool" else f"({CTYPES[node.dtype]}){args[0]}"
            case "pow":
                return self._pow_text(node, args)
        raise KeyError(f"operation {node.name!r} is not known to the C++ printer")

    def _pow_text(self, node: Node, args: list[str]) -> str:
        exponent = self.dag.nodes[node.args[1]]
        if exponent.kind == "const":
            special = {2.0: f"squared({args[0]})", 1.0: args[0], 0.0: literal(1, node.dtype)}
            special |= {3.0: f"({args[0]} * squared({args[0]}))", 4.0: f"squared(squared({args[0]}))"}
            special |= {-1.0: f"({literal(1, node.dtype)} / {args[0]})"}
            special |= {-2.0: f"({literal(1, node.dtype)} / squared({args[0]}))"}
            special |= {0.5: f"vsqrt({args[0]})", -0.5: f"({literal(1, node.dtype)} / vsqrt({args[0]}))"}
            special |= {0.75: f"(vsqrt({args[0]}) * vsqrt(vsqrt({args[0]})))"}
            if float(exponent.value) in special:
                return special[float(exponent.value)]
        return f"vpow({args[0]}, {args[1]})"


def bare(text: str) -> str:
    """Return the text without one pair of parentheses that encloses all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]


def wrapped(head: str, parts: Sequence[str], tail: str, width: int = 108) -> str:
    """Return ``head part, part tail``, broken into lines when it is wider than that."""
    line = head + ", ".join(parts) + tail
    if len(line) <= width:
        return line
    lines, indent = [head], "    "
    for position, part in enumerate(parts):
        text = part + ("," if position < len(parts) - 1 else "")
        if lines[-1] == head or len(lines[-1]) + len(text) + 1 > width:
            lines.append(indent + text)
        else:
            lines[-1] += " " + text
    return "\n".join(lines) + tail
