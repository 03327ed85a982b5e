"""Functions that generated kernels share; a file carries only those that its kernels use.

Triton's own functions are used wherever they exist and treat NaN as torch does. libdevice is not:
Triton's interpreter lacks it, and a candidate must mean the same there. Polynomials were fitted to
minimise the relative error of the whole function over float32.
"""

import re

_BLOCKS: dict[str, str] = {
    "nan_max": '''
@triton.jit
def nan_max(a, b):
    """The larger one; NaN where either is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "nan_min": '''
@triton.jit
def nan_min(a, b):
    """The smaller one; NaN where either is."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "product": '''
@triton.jit
def product(a, b):
    """To reduce with."""
    return a * b
''',
    "expm1": '''
@triton.jit
def expm1(x):
    """exp(x) - 1, by its series where the difference would cancel."""
    s = 2.48015873e-5 * x + 1.98412698e-4
    s = s * x + 1.38888889e-3
    s = s * x + 8.33333333e-3
    s = s * x + 4.16666667e-2
    s = s * x + 1.66666667e-1
    s = s * x + 0.5
    return tl.where(tl.abs(x) < 0.5, s * x * x + x, tl.exp(x) - 1.0)
''',
    "log1p": '''
@triton.jit
def log1p(x):
    """log(1 + x); the rounding of 1 + x is taken back by the factor x / (u - 1)."""
    u = 1.0 + x
    d = u - 1.0
    corrected = tl.log(u) * (x / tl.where(d == 0.0, 1.0, d))
    return tl.where(d == 0.0, x, tl.where(u == float("inf"), u, corrected))
''',
    "log10": '''
@triton.jit
def log10(x):
    return tl.log2(x) * 0.30102999566398120
''',
    "tanh": '''
@triton.jit
def tanh(x):
    t = expm1(-2.0 * tl.abs(x))
    return tl.where(x < 0.0, t / (t + 2.0), -t / (t + 2.0))
''',
    "softplus": '''
@triton.jit
def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return tl.where(x > 0.0, x, 0.0) + log1p(tl.exp(-tl.abs(x)))
''',
    "tanh_softplus": '''
@triton.jit
def tanh_softplus(x):
    """tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2) with e = exp(x); 1 from x = 20 on."""
    e = tl.exp(tl.where(x > 20.0, 20.0, x))
    n = e * (e + 2.0)
    return n / (n + 2.0)
''',
    "sinh": '''
@triton.jit
def sinh(x):
    a = tl.abs(x)
    t = expm1(a)
    half = tl.exp(0.5 * a)
    value = tl.where(a > 20.0, 0.5 * half * half, 0.5 * (t + t / (t + 1.0)))
    return tl.where(x < 0.0, -value, value)
''',
    "cosh": '''
@triton.jit
def cosh(x):
    half = tl.exp(0.5 * tl.abs(x))
    return 0.5 * half * half + 0.5 / half / half
''',
    "tan": '''
@triton.jit
def tan(x):
    return tl.sin(x) / tl.cos(x)
''',
    "atan": '''
@triton.jit
def atan(x):
    """Reduced to |t| <= tan(pi / 8), then an odd polynomial."""
    a = tl.abs(x)
    is_far = a > 2.414213562
    is_near = a <= 0.414213562
    t = tl.where(is_far, -1.0 / a, tl.where(is_near, a, (a - 1.0) / (a + 1.0)))
    start = tl.where(is_far, 1.57079632679, tl.where(is_near, 0.0, 0.785398163397))
    z = t * t
    p = -0.0645936917
    p = p * z + 0.107462957
    p = p * z - 0.142642322
    p = p * z + 0.199995501
    p = p * z - 0.333333318
    value = start + (p * z * t + t)
    return tl.where(x < 0.0, -value, tl.where(x == x, value, x))
''',
    "asin": '''
@triton.jit
def asin(x):
    """An odd polynomial up to 0.5; beyond, pi / 2 - 2 asin(sqrt((1 - x) / 2))."""
    a = tl.abs(x)
    is_far = a > 0.5
    z = tl.where(is_far, 0.5 * (1.0 - a), a * a)
    t = tl.where(is_far, tl.sqrt(z), a)
    p = 0.033805558
    p = p * z + 0.0170779902
    p = p * z + 0.0311161237
    p = p * z + 0.0445980358
    p = p * z + 0.0750009875
    p = p * z + 0.166666663
    value = p * z * t + t
    value = tl.where(is_far, 1.57079632679 - 2.0 * value, value)
    return tl.where(x < 0.0, -value, value)
''',
    "acos": '''
@triton.jit
def acos(x):
    small = asin(tl.sqrt(0.5 * (1.0 - tl.abs(x))))
    value = tl.where(x > 0.5, 2.0 * small, 1.57079632679 - asin(x))
    return tl.where(x < -0.5, 3.14159265359 - 2.0 * small, value)
''',
    "power": '''
@triton.jit
def power(x, y):
    """x ** y; negative x only to whole powers."""
    size = tl.exp2(y * tl.log2(tl.abs(x)))
    is_whole = y == tl.floor(y)
    is_odd = is_whole & (y - 2.0 * tl.floor(0.5 * y) == 1.0)
    value = tl.where(x < 0.0, tl.where(is_odd, -size, tl.where(is_whole, size, float("nan"))), size)
    return tl.where((y == 0.0) | (x == 1.0), 1.0, value)
''',
    "round_half_even": '''
@triton.jit
def round_half_even(x):
    """Adding 1.5 * 2^23 rounds to a whole number."""
    return tl.where(tl.abs(x) < 4194304.0, (x + 12582912.0) - 12582912.0, x)
''',
    "trunc": '''
@triton.jit
def trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))
''',
    "sign": '''
@triton.jit
def sign(x):
    return tl.where(x > 0, 1, tl.where(x < 0, -1, x))
''',
    "expm1_64": '''
@triton.jit
def expm1_64(x):
    """exp(x) - 1 in float64, by its series where the difference would cancel."""
    s = 1.0 + x / 18.0
    for k in tl.static_range(16):
        s = 1.0 + x * s / (17 - k)
    return tl.where(tl.abs(x) < 0.5, x * s, tl.exp(x) - 1.0)
''',
    "tanh_64": '''
@triton.jit
def tanh_64(x):
    t = expm1_64(-2.0 * tl.abs(x))
    return tl.where(x < 0.0, t / (t + 2.0), -t / (t + 2.0))
''',
    "sinh_64": '''
@triton.jit
def sinh_64(x):
    a = tl.abs(x)
    t = expm1_64(a)
    half = tl.exp(0.5 * a)
    value = tl.where(a > 20.0, 0.5 * half * half, 0.5 * (t + t / (t + 1.0)))
    return tl.where(x < 0.0, -value, value)
''',
    "atan_64": '''
@triton.jit
def atan_64(x):
    """atan leaves less than 1e-6 of the angle, whose tangent it is to float64."""
    a = atan(x)
    value = a + (x * tl.cos(a) - tl.sin(a)) / (tl.cos(a) + x * tl.sin(a))
    far = tl.where(x < 0.0, -1.0, 1.0) * tl.full((), 1.5707963267948966, tl.float64)
    return tl.where(x != x, x, tl.where(tl.abs(x) < 1e16, value, far))
''',
    "asin_64": '''
@triton.jit
def asin_64(x):
    return atan_64(x / tl.sqrt((1.0 - x) * (1.0 + x)))
''',
    "acos_64": '''
@triton.jit
def acos_64(x):
    return 2.0 * atan_64(tl.sqrt((1.0 - x) / (1.0 + x)))
''',
    "round_half_even_64": '''
@triton.jit
def round_half_even_64(x):
    """Adding 1.5 * 2^52 rounds to a whole number."""
    return tl.where(tl.abs(x) < 2251799813685248.0, (x + 6755399441055744.0) - 6755399441055744.0, x)
''',
    "remainder": '''
@triton.jit
def remainder(a, b):
    """With the sign of the divisor."""
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
''',
    "floor_divide": '''
@triton.jit
def floor_divide(a, b):
    """Of integers, towards minus infinity."""
    return a // b - ((a % b != 0) & ((a < 0) != (b < 0))).to(tl.int32)
''',
}  # fmt: skip


def prelude_for(text: str) -> str:
    """Return the functions that the text calls, and those that they call, in an order that works."""
    wanted: set[str] = set()
    pending = [text]
    while pending:
        source = pending.pop()
        for name in _BLOCKS:
            if name not in wanted and re.search(rf"(?<![\w.]){name}(?=[(,)])", source):
                wanted.add(name)
                pending.append(_BLOCKS[name])
    return "\n\n".join(_BLOCKS[name].strip() + "\n" for name in _BLOCKS if name in wanted)
