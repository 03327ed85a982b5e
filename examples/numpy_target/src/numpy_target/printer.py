"""One region as a NumPy function.

Every axis of the region becomes a dimension of all arrays, kept axes first. The variable of an axis holds its
points along that dimension, so an index is the arithmetic that the region says, and NumPy broadcasts it.
"""

import math
from collections.abc import Iterable

from kernelwright.core.errors import LoweringError
from kernelwright.ir.arguments import signature
from kernelwright.ir.program import (
    Affine,
    Bound,
    Const,
    Expr,
    IndexValue,
    Inside,
    Load,
    LoopStage,
    Op,
    Region,
    StageValue,
)
from kernelwright.ir.text import Names, affine_text

HELPERS = '''
_erf = np.frompyfunc(math.erf, 1, 1)


def _flat(tensor):
    """Return a tensor's elements as they lie in memory, counted from its first one."""
    span = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    return tensor.detach().as_strided((span,), (1,)).numpy()


def _axis(size, dimension, n_dimensions):
    """Return the points of an axis along its dimension."""
    return np.arange(size).reshape([size if d == dimension else 1 for d in range(n_dimensions)])
'''
TEMPLATES = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
    "abs": "np.abs({0})", "reciprocal": "1 / {0}", "fma": "{0} * {1} + {2}",
    "min": "np.minimum({0}, {1})", "max": "np.maximum({0}, {1})",
    "floor": "np.floor({0})", "ceil": "np.ceil({0})", "round": "np.round({0})", "trunc": "np.trunc({0})",
    "sign": "np.sign({0})", "fmod": "np.fmod({0}, {1})", "remainder": "np.remainder({0}, {1})",
    "floordiv": "{0} // {1}", "sqrt": "np.sqrt({0})", "rsqrt": "1 / np.sqrt({0})", "square": "{0} * {0}",
    "exp": "np.exp({0})", "exp2": "np.exp2({0})", "expm1": "np.expm1({0})", "log": "np.log({0})",
    "log2": "np.log2({0})", "log10": "np.log10({0})", "log1p": "np.log1p({0})", "sin": "np.sin({0})",
    "cos": "np.cos({0})", "tan": "np.tan({0})", "tanh": "np.tanh({0})", "sinh": "np.sinh({0})",
    "cosh": "np.cosh({0})", "atan": "np.arctan({0})", "asin": "np.arcsin({0})", "acos": "np.arccos({0})",
    "erf": "_erf({0})", "sigmoid": "1 / (1 + np.exp(-{0}))", "softplus": "np.logaddexp(0, {0})",
    "pow": "{0} ** {1}", "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}",
    "gt": "{0} > {1}", "ge": "{0} >= {1}", "and": "{0} & {1}", "or": "{0} | {1}", "not": "~{0}",
    "xor": "{0} ^ {1}", "isnan": "np.isnan({0})", "isinf": "np.isinf({0})",
    "where": "np.where({0}, {1}, {2})", "cast": "{0}",
}  # fmt: skip
"""Operation -> its text; the result is then given the operation's type."""
REDUCTIONS = {"sum": "sum", "prod": "prod", "max": "max", "min": "min", "any": "any", "all": "all"}
SCANS = {
    "sum": "np.cumsum",
    "prod": "np.cumprod",
    "max": "np.maximum.accumulate",
    "min": "np.minimum.accumulate",
}


def print_region(region: Region) -> str:
    """Return the function of a region; raises LoweringError for what NumPy cannot say in one call."""
    return _RegionPrinter(region).text()


class _RegionPrinter:
    def __init__(self, region: Region) -> None:
        self.region = region
        self.axes = (*region.kept, *region.inner)
        self.arguments = signature(region)
        self.names = Names([region.name, "np", "math", "torch", "nn", *(a.name for a in self.arguments)])
        self.axis_names = {axis.name: self.names.new(axis.name) for axis in self.axes}
        self.buffers = {a.buffer: a.name for a in self.arguments}
        self.lines: list[str] = []
        self.known: dict[Expr, str] = {}
        """Expression -> the variable that holds it: what occurs twice is computed once."""

    def text(self) -> str:
        for stage in self.region.stages:
            self._stage(stage)
        names = ", ".join(argument.name for argument in self.arguments)
        lines = [f"def {self.region.name}({names}):", f'    """{self.region.comment or "Generated."}"""']
        lines += [f"    {a.name} = _flat({a.name})" for a in self.arguments]
        for position, axis in enumerate(self.axes):
            lines.append(
                f"    {self.axis_names[axis.name]} = _axis({axis.size}, {position}, {len(self.axes)})"
            )
        lines.append('    with np.errstate(all="ignore"):')
        return "\n".join([*lines, *(f"        {line}" for line in self.lines)])

    def _assign(self, wanted: str, text: str) -> str:
        name = self.names.new(wanted)
        self.lines.append(f"{name} = {text}")
        return name

    # -- stages ------------------------------------------------------------------------------------

    def _stage(self, stage: LoopStage) -> None:
        value = self._value(stage.expr)
        if stage.kind == "reduce":
            value = self._reduced(stage, value)
        elif stage.kind == "scan":
            value = self._scanned(stage, value)
        self.known[StageValue(stage.name, stage.dtype)] = value
        for store in stage.stores:
            self.lines.append(f"{self.buffers[store.buffer]}[{self._index(store.index)}] = {value}")

    def _reduced(self, stage: LoopStage, value: str) -> str:
        if stage.combine not in REDUCTIONS:
            raise LoweringError(f"the NumPy printer has no {stage.combine}")
        along = tuple(n for n, axis in enumerate(self.axes) if axis.name in stage.axes)
        double = ", dtype=np.float64" if stage.combine in ("sum", "prod") and "float" in stage.dtype else ""
        whole = f"np.broadcast_to({value}, {self._shape(stage.axes)})"
        text = f"{whole}.{REDUCTIONS[stage.combine]}(axis={along}, keepdims=True{double})"
        return self._assign(stage.name, f"{text}.astype(np.{_type(stage.dtype)})")

    def _scanned(self, stage: LoopStage, value: str) -> str:
        if stage.combine not in SCANS:
            raise LoweringError(f"the NumPy printer has no scan of {stage.combine}")
        along = [axis.name for axis in self.axes].index(str(stage.scan_axis))
        whole = f"np.broadcast_to({value}, {self._shape(stage.axes)})"
        whole = f"np.flip({whole}, {along})" if stage.reverse else whole
        double = ", dtype=np.float64" if stage.combine in ("sum", "prod") and "float" in stage.dtype else ""
        text = f"{SCANS[stage.combine]}({whole}, axis={along}{double})"
        text = f"np.flip({text}, {along})" if stage.reverse else text
        return self._assign(stage.name, f"{text}.astype(np.{_type(stage.dtype)})")

    def _shape(self, inner: Iterable[str]) -> tuple[int, ...]:
        kept = {axis.name for axis in self.region.kept}
        return tuple(axis.size if axis.name in kept or axis.name in inner else 1 for axis in self.axes)

    # -- values ------------------------------------------------------------------------------------

    def _value(self, expr: Expr) -> str:
        if expr not in self.known:
            self.known[expr] = self._new_value(expr)
        return self.known[expr]

    def _new_value(self, expr: Expr) -> str:
        match expr:
            case Const():
                return _literal(expr)
            case IndexValue():
                return self._assign(
                    "position", f"np.asarray({self._index(expr.index)}).astype(np.{_type(expr.dtype)})"
                )
            case Inside():
                return self._assign("inside", self._holds(expr.bounds))
            case Load():
                return self._assign(f"{self.buffers[expr.buffer]}_at", self._load(expr))
            case Op():
                args = [self._value(arg) for arg in expr.args]
                text = TEMPLATES[expr.name].format(*args)
                return self._assign(expr.name + "_", f"np.asarray({text}).astype(np.{_type(expr.dtype)})")
        raise LoweringError(f"the NumPy printer has no value for {expr}")

    def _load(self, load: Load) -> str:
        index = self._index(load.index)
        for value, stride in load.dynamic:
            index += f" + {self._value(value)} * {stride}"
        array = self.buffers[load.buffer]
        if not load.bounds:
            return f"{array}[{index}]"
        holds = self._assign("inside", self._holds(load.bounds))
        otherwise = _literal(Const(load.otherwise, load.dtype))
        return f"np.where({holds}, {array}[np.where({holds}, {index}, 0)], {otherwise})"

    def _holds(self, bounds: tuple[Bound, ...]) -> str:
        tests = [f"(0 <= {self._index(b.index)}) & ({self._index(b.index)} < {b.size})" for b in bounds]
        return " & ".join(tests) or "np.asarray(True)"

    def _index(self, index: Affine) -> str:
        return f"({affine_text(index, self.axis_names, wide=False)})"


def _type(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def _literal(const: Const) -> str:
    value = const.value
    if isinstance(value, float) and not math.isfinite(value):
        return f'np.{_type(const.dtype)}("{value}")'
    return f"np.{_type(const.dtype)}({value!r})"
