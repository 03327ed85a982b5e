"""Pointwise operators of core ATen as expressions.

Each entry of ARITHMETIC takes an ``Emit`` whose dtype is the result's, then the operator's arguments:
tensors and numbers as expressions already cast to that dtype, anything else as it is.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from kernelwright.ir.program import Const, DType, Expr, Op

FLOATS = ("float32", "float64")


class UnsupportedError(Exception):
    """This form of an operator is not generated; the node stays a call."""

    node = ""
    """The graph node, where its operands say so only once they are read."""


class Emit:
    """Builds operations of one dtype."""

    def __init__(self, dtype: DType, intern: Callable[..., Expr]) -> None:
        self.dtype = dtype
        self._intern = intern

    def __call__(self, name: str, *args: Expr, dtype: DType | None = None) -> Expr:
        """Return operation ``name``; comparisons and logic name their dtype."""
        return self._intern(name, *args, dtype=dtype or self.dtype)

    def number(self, value: float) -> Const:
        """Return a literal of this dtype."""
        return constant(value, self.dtype)

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype in FLOATS


Builder: TypeAlias = Callable[..., Expr]


def constant(value: float | int | bool, dtype: DType) -> Const:
    """Return a literal converted to ``dtype``."""
    if dtype == "bool":
        return Const(bool(value), dtype)
    return Const(float(value) if dtype in FLOATS else _wrapped(int(value), dtype), dtype)


def _wrapped(value: int, dtype: DType) -> int:
    """Return an integer as the dtype holds it: 255 is -1 of int8, as in torch."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    low = 0 if dtype.startswith("u") else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


def dtype_of(expr: Expr) -> DType:
    """Return the dtype of an expression."""
    return getattr(expr, "dtype", "bool")  # Inside has none


def cast(emit: Callable[..., Expr], expr: Expr, dtype: DType) -> Expr:
    """Return the expression converted to ``dtype``; nothing is emitted when it has that dtype."""
    if dtype_of(expr) == dtype:
        return expr
    if isinstance(expr, Const) and not (isinstance(expr.value, float) and not math.isfinite(expr.value)):
        return constant(expr.value, dtype)
    return emit("cast", expr, dtype=dtype)


def _simple(name: str) -> Builder:
    return lambda e, *args: e(name, *args)


def _float_only(name: str) -> Builder:
    def build(e: Emit, x: Expr) -> Expr:
        return e(name, x) if e.is_float else x

    return build


def _add(e: Emit, x: Expr, y: Expr, alpha: Expr | None = None) -> Expr:
    return e("add", x, _times(e, y, alpha))


def _sub(e: Emit, x: Expr, y: Expr, alpha: Expr | None = None) -> Expr:
    return e("sub", x, _times(e, y, alpha))


def _rsub(e: Emit, x: Expr, y: Expr, alpha: Expr | None = None) -> Expr:
    return e("sub", y, _times(e, x, alpha))


def _times(e: Emit, x: Expr, factor: Expr | None) -> Expr:
    return x if factor is None or factor == e.number(1) else e("mul", x, factor)


def _logical(name: str) -> Builder:
    def build(e: Emit, x: Expr, y: Expr) -> Expr:
        if e.dtype != "bool":
            raise UnsupportedError("bitwise logic on integers")
        return e(name, x, y)

    return build


def _dividing(name: str) -> Builder:
    def build(e: Emit, x: Expr, y: Expr) -> Expr:
        if not e.is_float and not (isinstance(y, Const) and y.value != 0):
            raise UnsupportedError("division of integers by what may be zero")  # it ends the process
        return e(name, x, y)

    return build


def _div_mode(e: Emit, x: Expr, y: Expr, rounding_mode: str | None = None) -> Expr:
    if rounding_mode is None:
        return e("div", x, y)
    if rounding_mode == "floor" and not e.is_float:
        return _dividing("floordiv")(e, x, y)
    if not e.is_float:
        raise UnsupportedError("integer division towards zero")
    return _floor_div(e, x, y) if rounding_mode == "floor" else e("trunc", e("div", x, y))


def _floor_div(e: Emit, x: Expr, y: Expr) -> Expr:
    """Divide towards minus infinity, from the remainder as torch does: 1 // 0.1 is 9, and 1 / 0.1 is 10."""

    def test(name: str, a: Expr, b: Expr) -> Expr:
        return e(name, a, b, dtype="bool")

    zero, one = e.number(0), e.number(1)
    rest = e("fmod", x, y)
    whole = e("div", e("sub", x, rest), y)
    is_above = e("xor", test("lt", y, zero), test("lt", rest, zero), dtype="bool")
    is_above = e("and", test("ne", rest, zero), is_above, dtype="bool")
    whole = e("where", is_above, e("sub", whole, one), whole)
    below = e("floor", whole)
    nearest = e("where", test("gt", e("sub", whole, below), e.number(0.5)), e("add", below, one), below)
    plain = e("div", x, y)
    nearest = e("where", test("eq", whole, zero), e("mul", plain, zero), nearest)  # a zero of the right sign
    return e("where", test("eq", y, zero), plain, nearest)


def _clamp(e: Emit, x: Expr, low: Expr | None = None, high: Expr | None = None) -> Expr:
    x = x if low is None else e("max", x, low)
    return x if high is None else e("min", x, high)


def _hardtanh(e: Emit, x: Expr, low: Expr | None = None, high: Expr | None = None) -> Expr:
    return _clamp(e, x, low or e.number(-1), high or e.number(1))


def _leaky_relu(e: Emit, x: Expr, slope: Expr | None = None) -> Expr:
    zero = e.number(0)
    return e("where", e("gt", x, zero, dtype="bool"), x, e("mul", x, slope or e.number(0.01)))


def _elu(
    e: Emit,
    x: Expr,
    alpha: Expr | None = None,
    scale: Expr | None = None,
    input_scale: Expr | None = None,
) -> Expr:
    negative = e("expm1", _times(e, x, input_scale))
    negative = _times(e, _times(e, negative, alpha), scale)
    return e("where", e("gt", x, e.number(0), dtype="bool"), _times(e, x, scale), negative)


def _gelu(e: Emit, x: Expr, approximate: str = "none") -> Expr:
    half, one = e.number(0.5), e.number(1)
    if approximate == "tanh":
        cubic = e("mul", e("mul", x, x), x)
        inner = e("add", x, e("mul", e.number(0.044715), cubic))
        curve = e("tanh", e("mul", e.number(math.sqrt(2 / math.pi)), inner))
    else:
        curve = e("erf", e("mul", x, e.number(math.sqrt(0.5))))
    return e("mul", e("mul", half, x), e("add", one, curve))


def _silu(e: Emit, x: Expr) -> Expr:
    return e("mul", x, e("sigmoid", x))


def _hardsigmoid(e: Emit, x: Expr) -> Expr:
    return e("div", _clamp(e, e("add", x, e.number(3)), e.number(0), e.number(6)), e.number(6))


def _hardswish(e: Emit, x: Expr) -> Expr:
    return e("mul", x, _hardsigmoid(e, x))


def _mish(e: Emit, x: Expr) -> Expr:
    return e("mul", x, e("tanh", e("softplus", x)))


def _softplus(e: Emit, x: Expr, beta: Expr | None = None, threshold: Expr | None = None) -> Expr:
    if beta not in (None, e.number(1)) or threshold not in (None, e.number(20)):
        raise UnsupportedError("softplus with its own beta or threshold")
    return e("softplus", x)


def _pow(e: Emit, x: Expr, exponent: Expr) -> Expr:
    if not e.is_float:
        if isinstance(exponent, Const) and exponent.value == 2:
            return e("mul", x, x)
        raise UnsupportedError("integer power")
    power = exponent.value if isinstance(exponent, Const) else None
    if power == 1:
        return x
    if power == 2:
        return e("square", x)
    if power == 3:
        return e("mul", e("square", x), x)
    if power == 0.5:
        return e("sqrt", x)
    if power == -0.5:
        return e("rsqrt", x)
    if power == -1:
        return e("reciprocal", x)
    return e("pow", x, exponent)


def choose(e: Emit, condition: Expr, x: Expr, y: Expr) -> Expr:
    """Return ``condition ? x : y``, recognising the softplus that it may be a part of."""
    if _is_softplus(condition, x, y):
        return e("softplus", x)
    return e("where", condition, x, y)


def _is_softplus(condition: Expr, x: Expr, y: Expr) -> bool:
    """Return whether this is ``where(x > 20, x, log1p(exp(x)))``, as softplus decomposes."""
    above = isinstance(condition, Op) and condition.name == "gt" and condition.args[0] == x
    if not above or not isinstance(y, Op) or y.name != "log1p" or y.dtype not in FLOATS:
        return False
    limit = condition.args[1]  # type: ignore[union-attr]  # `above` says that it is an Op
    grown = y.args[0]
    is_exp = isinstance(grown, Op) and grown.name == "exp" and grown.args[0] == x
    return is_exp and isinstance(limit, Const) and limit.value == 20


def _addcmul(e: Emit, x: Expr, a: Expr, b: Expr, value: Expr | None = None) -> Expr:
    return e("add", x, _times(e, e("mul", a, b), value))


def _addcdiv(e: Emit, x: Expr, a: Expr, b: Expr, value: Expr | None = None) -> Expr:
    return e("add", x, _times(e, e("div", a, b), value))


def _lerp(e: Emit, x: Expr, y: Expr, weight: Expr) -> Expr:
    return e("add", x, e("mul", weight, e("sub", y, x)))


ARITHMETIC: dict[str, Builder] = {
    "add.Tensor": _add, "add.Scalar": _add, "sub.Tensor": _sub, "sub.Scalar": _sub,
    "rsub.Tensor": _rsub, "rsub.Scalar": _rsub,
    "mul.Tensor": _simple("mul"), "mul.Scalar": _simple("mul"),
    "div.Tensor": _simple("div"), "div.Scalar": _simple("div"),
    "div.Tensor_mode": _div_mode, "div.Scalar_mode": _div_mode,
    "maximum.default": _simple("max"), "minimum.default": _simple("min"),
    "fmod.Tensor": _dividing("fmod"), "fmod.Scalar": _dividing("fmod"),
    "remainder.Tensor": _dividing("remainder"), "remainder.Scalar": _dividing("remainder"),
    "neg.default": _simple("neg"), "abs.default": _simple("abs"), "sign.default": _simple("sign"),
    "floor.default": _float_only("floor"), "ceil.default": _float_only("ceil"),
    "round.default": _float_only("round"), "trunc.default": _float_only("trunc"),
    "relu.default": lambda e, x: e("max", x, e.number(0)),
    "clamp.default": _clamp, "clamp.Tensor": _clamp, "hardtanh.default": _hardtanh,
    "clamp_min.default": _clamp, "clamp_max.default": lambda e, x, high: _clamp(e, x, None, high),
    "leaky_relu.default": _leaky_relu, "elu.default": _elu, "gelu.default": _gelu,
    "silu.default": _silu, "mish.default": _mish, "softplus.default": _softplus,
    "hardsigmoid.default": _hardsigmoid, "hardswish.default": _hardswish,
    "pow.Tensor_Scalar": _pow, "pow.Tensor_Tensor": _pow,
    "addcmul.default": _addcmul, "addcdiv.default": _addcdiv,
    "lerp.Scalar": _lerp, "lerp.Tensor": _lerp,
    "bitwise_and.Tensor": _logical("and"), "bitwise_or.Tensor": _logical("or"),
    "bitwise_xor.Tensor": _logical("xor"),
    "bitwise_not.default": lambda e, x: _logical("and")(e, e("not", x), e("not", x)),
    **{
        f"{name}.default": _simple(name)
        for name in ("sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
                     "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan", "asin", "acos", "erf", "sigmoid")
    },
}  # fmt: skip
"""Operator -> builder; arguments are cast to the result's dtype."""

COMPARISONS = {
    f"{name}.{overload}": name
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for overload in ("Tensor", "Scalar")
}
"""Operator -> operation; arguments are cast to their common dtype."""

LOGIC = {"logical_and.default": "and", "logical_or.default": "or", "logical_xor.default": "xor"}
"""Arguments are cast to bool."""

TESTS: dict[str, str] = {"isnan.default": "isnan", "isinf.default": "isinf", "logical_not.default": "not"}
"""One argument, bool result."""


def arguments(emit: Emit, args: tuple[Any, ...], dtype: DType) -> list[Any]:
    """Return arguments with expressions cast to ``dtype`` and numbers made literals."""
    made: list[Any] = []
    for arg in args:
        if isinstance(arg, bool | int | float):
            made.append(constant(arg, dtype))
        elif arg is None or isinstance(arg, str):
            made.append(arg)
        else:
            made.append(cast(emit, arg, dtype))
    return made
