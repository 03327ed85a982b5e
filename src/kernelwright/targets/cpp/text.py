"""C++ text of expressions: operators, literals, indices, and the variables already bound."""

import math
from functools import cached_property

import numpy as np

from kernelwright.ir.dag import DagNode
from kernelwright.ir.program import DType
from kernelwright.ir.rounding import rounded_products
from kernelwright.ir.text import Renderer, bare, extent
from kernelwright.targets.cpp.prelude import SHORTENED

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
OF_INTEGERS = {
    "add": "wrap_add", "sub": "wrap_sub", "mul": "wrap_mul", "neg": "wrap_neg",
    "min": "nanmin", "max": "nanmax", "abs": "vabs", "sign": "vsign",
    "remainder": "floor_remainder", "floordiv": "floor_divide",
}  # fmt: skip
"""Functions whose type integers name: the arguments' text may be a plain ``int`` of C++."""
OF_BOOLS = {"add": "|", "mul": "&"}
"""Operators of C++ that leave a ``bool`` one: ``true + true`` is 2."""
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


class CppRenderer(Renderer):
    """C++ text of nodes, given which of them have names already."""

    exp_degree = 6
    """Of the polynomial in exponentials."""

    @cached_property
    def rounded(self) -> frozenset[int]:
        """Products that may not be fused with a sum."""
        return rounded_products(self.dag)

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
            case "op" if number in self.rounded:
                name = "rounded_product" if node.name == "mul" else "rounded_square"
                return f"{name}({', '.join(bare(self.text(a)) for a in node.args)})"
            case "op":
                return self._op_text(node)
        raise KeyError(f"{node.kind} {node.name} has no value here")

    def _bound_text(self, node: DagNode) -> str:
        low, high = extent(node.index, self.ranges)
        index = self.index(node.index)
        if low >= 0 and high < node.size:
            return "true"
        if low >= 0:
            return f"({index} < {node.size})"
        if high < node.size:
            return f"({index} >= 0)"
        return f"(({index} >= 0) & ({index} < {node.size}))"

    def _load_text(self, number: int, node: DagNode) -> str:
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

    def _function(self, node: DagNode) -> str:
        name = CALLS[node.name]
        is_short = self.exp_degree == 5 and node.dtype == "float32" and name in SHORTENED
        return f"{name}_5" if is_short else name

    def _op_text(self, node: DagNode) -> str:
        args = [self.text(a) for a in node.args]
        if node.name in OF_INTEGERS and node.dtype not in ("float32", "float64", "bool"):
            return f"{OF_INTEGERS[node.name]}<{CTYPES[node.dtype]}>({', '.join(bare(a) for a in args)})"
        if node.dtype == "bool" and node.name in OF_BOOLS:
            return f"({args[0]} {OF_BOOLS[node.name]} {args[1]})"
        if node.name in INFIX:
            return f"({args[0]} {INFIX[node.name]} {args[1]})"
        if node.name in CALLS:
            return f"{self._function(node)}({', '.join(bare(a) for a in args)})"
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

    def _pow_text(self, node: DagNode, args: list[str]) -> str:
        exponent = self.dag.nodes[node.args[1]]
        if exponent.kind == "const":
            special = {2.0: f"squared({args[0]})", 1.0: args[0], 0.0: literal(1, node.dtype)}
            special |= {3.0: f"({args[0]} * squared({args[0]}))", 4.0: f"rounded_square(squared({args[0]}))"}
            special |= {-1.0: f"({literal(1, node.dtype)} / {args[0]})"}
            special |= {-2.0: f"({literal(1, node.dtype)} / squared({args[0]}))"}
            special |= {0.5: f"vsqrt({args[0]})", -0.5: f"({literal(1, node.dtype)} / vsqrt({args[0]}))"}
            special |= {0.75: f"three_quarters({args[0]})"}
            if float(exponent.value) in special:
                return special[float(exponent.value)]
        return f"vpow({args[0]}, {args[1]})"
