"""linear_silu_logsumexp: a drop-in for the reference ``Model``, as ``ModelNew``.

Steps:
  permute: torch.ops.aten.permute.default
  onednn_matmul: onednn_matmul
  r_add: sigmoid -> mul -> amax -> abs -> eq -> scalar_tensor -> ... -> sub -> exp -> sum -> log -> add

Plan:
  1. onednn-matmul: addmm multiplies 512x768 by 768x1024 in float32: oneDNN may beat the BLAS
"""

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn

CPP_SOURCE = r'''
#include <stdint.h>
static const float INF = __builtin_inff();

static inline int32_t bits_of(float x) { return __builtin_bit_cast(int32_t, x); }
static inline float float_of(int32_t bits) { return __builtin_bit_cast(float, bits); }

// NaN propagates; of equal values the first is kept.
template <class T> static inline T nanmax(T a, T b) { return ((b > a) | (b != b)) ? b : a; }
#pragma omp declare reduction(nanmax : float : omp_out = nanmax(omp_out, omp_in)) \
    initializer(omp_priv = -INF)

// 126 is added to the exponent n on its way to an integer, so that the bits of `shifted` are those of
// 2^(n-1) once moved into place; the polynomial is of 2 exp(r). Subnormal results become zero.
// Range checks come last: the compiler would make special cases of clamped arguments.
static inline float vexp(float x) {
  const float shifted = x * 1.44269504f + 12583038.0f;  // 1.5 * 2^23 + 126
  const float k = shifted - 12583038.0f;
  float r = x - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  float p = 0.0027903434f;
  p = p * r + 0.0167391970f;
  p = p * r + 0.083332374f;
  p = p * r + 0.33333024f;
  p = p * r + 1.0f;
  p = p * (r * r) + (r + r + 2.0f);
  p = p * float_of((int32_t)((uint32_t)bits_of(shifted) << 23));
  p = x < -87.4f ? 0.0f : p;
  return x > 88.8f ? INF : p;
}
static inline double vexp(double x) { return __builtin_exp(x); }

// x = 2^e * (1 + f) with 1 + f in [0.7, 1.42]; x must be positive and finite.
static inline float log_parts(float x, float* e) {
  const bool tiny = x < 1.17549435e-38f;
  x = tiny ? x * 8388608.0f : x;
  const int32_t shifted = bits_of(x) - 0x3f3504f3;
  *e = (float)(shifted >> 23) - (tiny ? 23.0f : 0.0f);
  return float_of((shifted & 0x007fffff) + 0x3f3504f3) - 1.0f;
}
// (log(1 + f) - f + f^2 / 2) / f^2
static inline float log_tail(float f) {
  float p = 0.067466013f;
  p = p * f - 0.11675641f;
  p = p * f + 0.11888175f;
  p = p * f - 0.12405591f;
  p = p * f + 0.14219551f;
  p = p * f - 0.16667996f;
  p = p * f + 0.20002119f;
  p = p * f - 0.25000009f;
  p = p * f + 0.33333313f;
  return p * f;
}
// Puts the values of zero, infinity, negative numbers and NaN in place of a logarithm's result.
static inline float log_special(float x, float result) {
  result = x == INF ? INF : result;
  result = x == 0.0f ? -INF : result;
  return x >= 0.0f ? result : __builtin_nanf("");
}

static inline float vlog(float x) {
  float e;
  const float f = log_parts(x, &e);
  const float f2 = f * f;
  const float low = f2 * log_tail(f) + (e * -2.12194440e-4f - 0.5f * f2);
  return log_special(x, e * 0.693359375f + (f + low));
}
static inline double vlog(double x) { return __builtin_log(x); }

static inline float vsigmoid(float x) { return 1.0f / (1.0f + vexp(-x)); }
static inline double vsigmoid(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }

static inline float vabs(float x) { return __builtin_fabsf(x); }
static inline double vabs(double x) { return __builtin_fabs(x); }
template <class T> static inline T vabs(T x) { return x < 0 ? -x : x; }

template <class T, int N> static inline double lanes_sum(const T (&lane)[N]) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (int l = 0; l < N; ++l) total += lane[l];
  return total;
}
template <int N> static inline int64_t lanes_sum(const int64_t (&lane)[N]) {
  int64_t total = 0;
  for (int l = 0; l < N; ++l) total += lane[l];
  return total;
}

template <class T, int N> static inline T lanes_max(const T (&lane)[N]) {
  T best[N];
  for (int l = 0; l < N; ++l) best[l] = lane[l];
  for (int n = N; n > 1; n = (n + 1) / 2)
#pragma omp simd
    for (int l = 0; l < n / 2; ++l) best[l] = nanmax(best[l], best[l + (n + 1) / 2]);
  return best[0];
}

// sigmoid -> mul -> amax -> abs -> eq -> scalar_tensor -> ... -> sub -> exp -> sum -> log -> add
static inline void r_add_point(const float* __restrict onednn_matmul, float* __restrict add, int i0) {
  alignas(64) float kept[1024];
  float amax_lanes[32];
  for (int l = 0; l < 32; ++l) amax_lanes[l] = -INF;
  for (int r0_block = 0; r0_block < 1024; r0_block += 32) {
#pragma omp simd
    for (int l = 0; l < 32; ++l) {
      const int r0 = r0_block + l;
      const float onednn_matmul_at = onednn_matmul[i0 * 1024 + r0];
      kept[r0] = onednn_matmul_at * vsigmoid(onednn_matmul_at);
      amax_lanes[l] = nanmax(amax_lanes[l], kept[r0]);
    }
  }
  const float amax = lanes_max(amax_lanes);
  float sum_1_lanes[32] = {};
  const float where_at = (vabs(amax) == INF) ? 0.0f : amax;
  for (int r0_block_2 = 0; r0_block_2 < 1024; r0_block_2 += 32) {
    for (int q = 0; q < 32; q += 16) __builtin_prefetch(&onednn_matmul[i0 * 1024 + r0_block_2 + 1024] + q, 0, 3);
#pragma omp simd
    for (int l = 0; l < 32; ++l) {
      const int r0 = r0_block_2 + l;
      sum_1_lanes[l] += vexp(kept[r0] - where_at);
    }
  }
  const float sum_1 = (float)lanes_sum(sum_1_lanes);
  add[i0] = vlog(sum_1) + ((vabs(amax) == INF) ? 0.0f : amax);
}

extern "C" void r_add(const float* __restrict onednn_matmul, float* __restrict add) {
#pragma omp parallel for schedule(static)
  for (int i0 = 0; i0 < 512; ++i0) r_add_point(onednn_matmul, add, i0);
}
'''

CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-mprefer-vector-width=512")

def _load_library():
    """Compile CPP_SOURCE, or find the library that was compiled from the same text for such a machine."""
    key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
    ahead = Path(os.environ.get("KERNELWRIGHT_BUILD_CACHE", "/nonexistent")) / f"{key}.so"
    library = ahead if ahead.exists() else _built(key)
    try:
        return ctypes.CDLL(str(library))  # torch is imported already: one shared OpenMP pool
    except OSError as error:
        hint = "set KERNELWRIGHT_CACHE to a folder that programs may be run from"
        raise RuntimeError(f"{library} cannot be loaded ({error}): {hint}") from None


def _built(key):
    """Return the library of a key from the cache, where processor and compiler are part of the name."""
    given, shared = os.environ.get("KERNELWRIGHT_CACHE"), os.environ.get("XDG_CACHE_HOME")
    cache = Path(given or Path(shared or "~/.cache") / "kernelwright").expanduser() / "build"
    processor = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    words = shlex.split(os.environ.get("CXX", "")) or ["g++" if shutil.which("g++") else "clang++"]
    compiler = shutil.which(words[-1])
    if compiler is None:  # then any compiler's library of this text for this processor will do
        found = sorted(cache.glob(f"{processor}-*/{key}.so"))
        if not found:
            raise RuntimeError(f"no C++ compiler {words[-1]!r} found: install g++ or clang++, or set CXX")
        return found[0]
    state = os.stat(os.path.realpath(compiler))
    version = hashlib.sha256(f"{compiler} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:12]
    library = cache / f"{processor}-{version}" / f"{key}.so"
    try:
        if not library.exists():
            library.parent.mkdir(parents=True, exist_ok=True)
            _compile([*words[:-1], compiler], library)
    except OSError as error:
        reason = f"cannot write {library.parent} ({error.strerror})"
        raise RuntimeError(f"{reason}: set KERNELWRIGHT_CACHE to a writable folder") from None
    return library


def _processor():
    """Return what tells this kind of processor from others: -march=native depends on it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line.startswith(("flags", "Features"))), os.uname().machine)


def _compile(compiler, library):
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        source, built = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
        source.write_text(CPP_SOURCE)
        command = [*compiler, *CXX_FLAGS, "-shared", "-fPIC", source, "-o", built]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("the C++ compiler failed:\n" + done.stderr[-4000:])
        os.replace(built, library)  # atomic: another process may be building the same


_library = _load_library()


def _kernel(name, n_tensors):
    """Return a C function that takes so many data pointers."""
    function = getattr(_library, name)
    function.argtypes, function.restype = (ctypes.c_void_p,) * n_tensors, None
    return function

_r_add = _kernel("r_add", 2)

_PLAIN = (torch.Tensor, nn.Parameter)


def _has_memory(tensor):
    """False where a class of the user's holds the elements elsewhere, or runs operators by itself."""
    return type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


_tracing, _functorch = torch._C._get_tracing_state, torch._C._functorch.peek_interpreter_stack
_n_dispatch, _n_function = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_forward_mode = torch.autograd.forward_ad


def _is_watched():
    """True where somebody records operators, or changes what they do; a default device is no matter."""
    return (
        _n_dispatch()
        or _tracing() is not None
        or _functorch() is not None
        or _forward_mode._current_level >= 0
        or (_n_function() and _has_modes())
    )


def _has_modes():
    from torch.utils._device import DeviceContext

    return any(type(mode) is not DeviceContext for mode in torch.overrides._get_current_function_mode_stack())


def _told(value):
    """Say what was given, in a few words."""
    if not isinstance(value, torch.Tensor):
        return " ".join(repr(value).split())[:80]
    kind = "" if type(value) in _PLAIN else f"{type(value).__name__} "
    return f"{kind}{tuple(value.shape)} {value.dtype} on {value.device}"


def _misfit(name, found, wanted):
    """Return what is raised for a weight that is not as it was verified."""
    words = f"{name} is {_told(found)}; this kernel was made for {wanted}"
    return ValueError(f"{words}: convert or load the weights anew, or use the original module")

class _Marked(torch.autograd.Function):
    """Results that want gradients, as the original's do, and say that there are none when asked for them."""

    @staticmethod
    def forward(ctx, weight, found):
        apart = [out.detach() for out in found]  # one may be an argument
        return apart[0] if len(apart) == 1 else tuple(apart)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("this kernel has no gradients: call it under torch.no_grad(), or train the original module")


def _marked(weights, found):
    """Return a kernel's results where gradients are on: cut off, they would train all but its weights."""
    weight = next((weight for weight in weights if weight.requires_grad), None)
    if weight is None:
        return found
    if isinstance(found, torch.Tensor):
        return _Marked.apply(weight, [found])
    marked = _Marked.apply(weight, list(found))
    return type(found)([marked] if isinstance(marked, torch.Tensor) else marked)

def onednn_matmul(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return ``a @ b + bias`` for float32 matrices by oneDNN instead of torch's default BLAS."""
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), bias, "none", [], "")
    return product

import torch

from torch import nn

class ModelNew(nn.Module):

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x):
        if torch.is_grad_enabled() and (x.requires_grad):
            raise RuntimeError("this kernel has no gradients: call it under torch.no_grad(), or train the original module")
        if _is_watched():
            raise RuntimeError("a kernel file cannot be traced or transformed: use the original module for torch.jit.trace, make_fx, torch.func, forward-mode gradients and modes that watch operators")
        if torch.is_grad_enabled():
            with torch.no_grad():
                found = self.forward(x)
            return _marked(self.parameters(), found)
        if type(x) in _PLAIN and x.shape == (512, 768) and x.dtype is torch.float32 and x.is_cpu:
            with torch.no_grad(), torch._C._DisableAutocast():
                return self._forward_default(x)
        raise ValueError(f"made for (512, 768) torch.float32; got {_told(x)}")

    def _forward_default(self, x):
        p_linear_weight = self.linear.weight
        if not ((type(p_linear_weight) in _PLAIN or _has_memory(p_linear_weight)) and p_linear_weight.dtype is torch.float32 and p_linear_weight.shape == (1024, 768) and p_linear_weight.is_cpu):
            raise _misfit("linear.weight", p_linear_weight, "(1024, 768) torch.float32 on the processor")
        p_linear_bias = self.linear.bias
        if not ((type(p_linear_bias) in _PLAIN or _has_memory(p_linear_bias)) and p_linear_bias.dtype is torch.float32 and p_linear_bias.shape == (1024,) and p_linear_bias.is_cpu):
            raise _misfit("linear.bias", p_linear_bias, "(1024,) torch.float32 on the processor")
        x = x.contiguous()
        permute = torch.ops.aten.permute.default(p_linear_weight, [1, 0])
        onednn_matmul_ = onednn_matmul(x, permute, p_linear_bias)
        onednn_matmul_ = onednn_matmul_.contiguous()
        add = torch.empty((512,), dtype=torch.float32, device="cpu")
        _r_add(onednn_matmul_.data_ptr(), add.data_ptr())
        return add
