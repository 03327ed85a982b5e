"""scaled_softmax: a drop-in for the reference ``Model``, as ``ModelNew``.

Workload small:
  r_mul_1_small: mul -> _softmax -> mul

Workload large:
  r_mul_1_large: mul -> _softmax -> mul
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

// mul -> _softmax -> mul
static inline void r_mul_1_small_point(
    const float* __restrict x, const float* __restrict p_scale, float* __restrict mul_1, int i0) {
  alignas(64) float kept[16];
  float _softmax_lanes[16];
  for (int l = 0; l < 16; ++l) _softmax_lanes[l] = -INF;
  for (int r0_block = 0; r0_block < 16; r0_block += 16) {
#pragma omp simd
    for (int l = 0; l < 16; ++l) {
      const int r0 = r0_block + l;
      _softmax_lanes[l] = nanmax(_softmax_lanes[l], x[i0 * 16 + r0] * p_scale[r0]);
    }
  }
  const float _softmax = lanes_max(_softmax_lanes);
  float _softmax_v3_lanes[16] = {};
  for (int r0_block_2 = 0; r0_block_2 < 16; r0_block_2 += 16) {
#pragma omp simd
    for (int l = 0; l < 16; ++l) {
      const int r0 = r0_block_2 + l;
      kept[r0] = vexp((x[i0 * 16 + r0] * p_scale[r0]) - _softmax);
      _softmax_v3_lanes[l] += kept[r0];
    }
  }
  const float _softmax_v3 = (float)lanes_sum(_softmax_v3_lanes);
  const float reciprocal_at = 1.0f / _softmax_v3;
#pragma omp simd
  for (int r0 = 0; r0 < 16; ++r0) {
    mul_1[i0 * 16 + r0] = (kept[r0] * reciprocal_at) * 2.0f;
  }
}

extern "C" void r_mul_1_small(
    const float* __restrict x, const float* __restrict p_scale, float* __restrict mul_1) {
  for (int i0 = 0; i0 < 8; ++i0) r_mul_1_small_point(x, p_scale, mul_1, i0);
}

// mul -> _softmax -> mul
static inline void r_mul_1_large_point(
    const float* __restrict x, const float* __restrict p_scale, float* __restrict mul_1, int i0) {
  alignas(64) float kept[16];
  float _softmax_lanes[16];
  for (int l = 0; l < 16; ++l) _softmax_lanes[l] = -INF;
  for (int r0_block = 0; r0_block < 16; r0_block += 16) {
#pragma omp simd
    for (int l = 0; l < 16; ++l) {
      const int r0 = r0_block + l;
      _softmax_lanes[l] = nanmax(_softmax_lanes[l], x[i0 * 16 + r0] * p_scale[r0]);
    }
  }
  const float _softmax = lanes_max(_softmax_lanes);
  float _softmax_v3_lanes[16] = {};
  for (int r0_block_2 = 0; r0_block_2 < 16; r0_block_2 += 16) {
#pragma omp simd
    for (int l = 0; l < 16; ++l) {
      const int r0 = r0_block_2 + l;
      kept[r0] = vexp((x[i0 * 16 + r0] * p_scale[r0]) - _softmax);
      _softmax_v3_lanes[l] += kept[r0];
    }
  }
  const float _softmax_v3 = (float)lanes_sum(_softmax_v3_lanes);
  const float reciprocal_at = 1.0f / _softmax_v3;
#pragma omp simd
  for (int r0 = 0; r0 < 16; ++r0) {
    mul_1[i0 * 16 + r0] = (kept[r0] * reciprocal_at) * 2.0f;
  }
}

extern "C" void r_mul_1_large(
    const float* __restrict x, const float* __restrict p_scale, float* __restrict mul_1) {
  for (int i0 = 0; i0 < 24; ++i0) r_mul_1_large_point(x, p_scale, mul_1, i0);
}
'''

TUNE = {"LEVEL": ["-O3", "-O2", "-O1"], "WIDTH": [512, 256, 128]}
CXX_FLAGS = ("-std=c++17", TUNE["LEVEL"][0], "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", f"-mprefer-vector-width={TUNE['WIDTH'][0]}")

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

_r_mul_1_small = _kernel("r_mul_1_small", 3)
_r_mul_1_large = _kernel("r_mul_1_large", 3)

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

import torch

from torch import nn

rows, width = (8, 16)

rows = 8

class ModelNew(nn.Module):

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x, factor):
        if torch.is_grad_enabled() and (x.requires_grad):
            raise RuntimeError("this kernel has no gradients: call it under torch.no_grad(), or train the original module")
        if _is_watched():
            raise RuntimeError("a kernel file cannot be traced or transformed: use the original module for torch.jit.trace, make_fx, torch.func, forward-mode gradients and modes that watch operators")
        if torch.is_grad_enabled():
            with torch.no_grad():
                found = self.forward(x, factor)
            return _marked(self.parameters(), found)
        if type(x) in _PLAIN and x.shape == (8, 16) and x.dtype is torch.float32 and x.is_cpu and type(factor) is type(2.0) and factor == 2.0:
            return self._forward_small(x, factor)
        if type(x) in _PLAIN and x.shape == (24, 16) and x.dtype is torch.float32 and x.is_cpu and type(factor) is type(2.0) and factor == 2.0:
            return self._forward_large(x, factor)
        raise ValueError(f"made for (8, 16) torch.float32, factor=2.0; (24, 16) torch.float32, factor=2.0; got {_told(x)}, factor={_told(factor)}")

    def _forward_small(self, x, factor):
        p_scale = self.scale
        if not ((type(p_scale) in _PLAIN or _has_memory(p_scale)) and p_scale.dtype is torch.float32 and p_scale.shape == (16,) and p_scale.is_cpu):
            raise _misfit("scale", p_scale, "(16,) torch.float32 on the processor")
        p_scale = p_scale.contiguous()
        x = x.contiguous()
        mul_1 = torch.empty((8, 16), dtype=torch.float32, device="cpu")
        _r_mul_1_small(x.data_ptr(), p_scale.data_ptr(), mul_1.data_ptr())
        return mul_1

    def _forward_large(self, x, factor):
        p_scale = self.scale
        if not ((type(p_scale) in _PLAIN or _has_memory(p_scale)) and p_scale.dtype is torch.float32 and p_scale.shape == (16,) and p_scale.is_cpu):
            raise _misfit("scale", p_scale, "(16,) torch.float32 on the processor")
        p_scale = p_scale.contiguous()
        x = x.contiguous()
        mul_1 = torch.empty((24, 16), dtype=torch.float32, device="cpu")
        _r_mul_1_large(x.data_ptr(), p_scale.data_ptr(), mul_1.data_ptr())
        return mul_1
