"""row_softmax: a drop-in for the reference ``Model``, as ``ModelNew``: softmax in base 2, AVX-512."""

import torch
from torch import nn

CPP_SOURCE = r'''
#include <stdint.h>
#include <immintrin.h>
static const int ROWS = 2048, WIDTH = 1536;
static const float INF = __builtin_inff();

// 2^(j/32), less j << 18: what the shifted low bits of n add to the mantissa is taken off beforehand.
struct Table {
  alignas(64) int32_t bits[32];
  Table() {
    for (int j = 0; j < 32; ++j)
      bits[j] = (int32_t)((uint32_t)__builtin_bit_cast(int32_t, (float)__builtin_exp2(j / 32.0)) - ((uint32_t)j << 18));
  }
};
static const Table table;

// 2^t for t <= 0 (or NaN, which stays); below 2^-126 comes zero.
static inline __m512 exp2_row(__m512 t, __m512 low, __m512 high) {
  const __mmask16 normal = _mm512_cmp_ps_mask(t, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
  const __m512 magic = _mm512_set1_ps(393216.0f);  // 1.5 * 2^18: its unit in the last place is 1/32
  const __m512 shifted = _mm512_add_ps(t, magic);
  const __m512 r = _mm512_sub_ps(t, _mm512_sub_ps(shifted, magic));  // |r| <= 1/64
  const __m512i n = _mm512_castps_si512(shifted);
  const __m512i entry = _mm512_castps_si512(_mm512_permutex2var_ps(low, n, high));
  const __m512 s = _mm512_castsi512_ps(_mm512_add_epi32(entry, _mm512_slli_epi32(n, 18)));
  __m512 q = _mm512_fmadd_ps(r, _mm512_set1_ps(0.240226507f), _mm512_set1_ps(0.693157344f));
  q = _mm512_mul_ps(q, r);
  return _mm512_maskz_fmadd_ps(normal, s, q, s);
}

static __attribute__((noinline)) void slow_row(const float* x, float temperature, const float* bias, float* out) {
  float best = -INF;
  for (int i = 0; i < WIDTH; ++i) {
    const float v = x[i] / temperature + bias[i];
    out[i] = v;
    if (v > best || v != v) best = v;  // a NaN stays: nothing is above it
  }
  double sum = 0;
  for (int i = 0; i < WIDTH; ++i) {
    out[i] = __builtin_expf(out[i] - best);
    sum += out[i];
  }
  const float total = (float)sum;
  for (int i = 0; i < WIDTH; ++i) out[i] = out[i] / total;
}

// The row, scaled. Streamed lines are not read before they are written, and stay out of the cache.
static inline void finish(const float* kept, __m512 reciprocal, float* __restrict out) {
#if STREAM
  if (((uintptr_t)out & 63) == 0) {
    for (int i = 0; i < WIDTH; i += 64) {
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u)
        _mm512_stream_ps(out + i + 16 * u, _mm512_mul_ps(_mm512_load_ps(kept + i + 16 * u), reciprocal));
    }
    return;
  }
#endif
  for (int i = 0; i < WIDTH; i += 64) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u)
      _mm512_storeu_ps(out + i + 16 * u, _mm512_mul_ps(_mm512_load_ps(kept + i + 16 * u), reciprocal));
  }
}

static inline void row(const float* __restrict x, float temperature, const float* __restrict bias,
                       const float* __restrict b2, float* __restrict out, __m512 low, __m512 high) {
  alignas(64) float kept[WIDTH];
  const float scale = (float)(1.4426950408889634 / (double)temperature);
  const __m512 rt = _mm512_set1_ps(scale);
  __m512 best[4];
  for (int u = 0; u < 4; ++u) best[u] = _mm512_set1_ps(-INF);
  for (int i = 0; i < WIDTH; i += 64) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const __m512 t = _mm512_fmadd_ps(_mm512_loadu_ps(x + i + 16 * u), rt, _mm512_load_ps(b2 + i + 16 * u));
      best[u] = _mm512_max_ps(t, best[u]);  // the second one if t is NaN
    }
  }
  const float top = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(best[0], best[1]), _mm512_max_ps(best[2], best[3])));
  if (!(__builtin_fabsf(top) < 1e38f) || !(__builtin_fabsf(scale) < 1e38f)) {
    slow_row(x, temperature, bias, out);
    return;
  }
  const __m512 m = _mm512_set1_ps(top);
  __m512 sums[UNROLL];
  for (int u = 0; u < UNROLL; ++u) sums[u] = _mm512_setzero_ps();
  for (int i = 0; i < WIDTH; i += 16 * UNROLL) {
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) {
      const int c = i + 16 * u;
      _mm_prefetch((const char*)(x + c + WIDTH), _MM_HINT_T0);
      const __m512 t = _mm512_fmadd_ps(_mm512_loadu_ps(x + c), rt, _mm512_load_ps(b2 + c));
      const __m512 e = exp2_row(_mm512_sub_ps(t, m), low, high);
      _mm512_store_ps(kept + c, e);
      sums[u] = _mm512_add_ps(sums[u], e);
    }
  }
  __m512 sum = sums[0];
  for (int u = 1; u < UNROLL; ++u) sum = _mm512_add_ps(sum, sums[u]);
  const __m512 reciprocal = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
  finish(kept, reciprocal, out);
}

extern "C" void r__softmax(const float* __restrict x, const float* __restrict temperature,
                           const float* __restrict bias, float* __restrict out) {
#pragma omp parallel
  {
    alignas(64) float b2[WIDTH];
    for (int i = 0; i < WIDTH; ++i) b2[i] = bias[i] * 1.44269504f;
    const __m512 low = _mm512_load_ps((const float*)table.bits);
    const __m512 high = _mm512_load_ps((const float*)(table.bits + 16));
#pragma omp for schedule(static) nowait
    for (int i = 0; i < ROWS; ++i)
      row(x + (int64_t)i * WIDTH, temperature[i], bias, b2, out + (int64_t)i * WIDTH, low, high);
    _mm_sfence();
  }
}
'''

TUNE = {'STREAM': [1]}

CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-mprefer-vector-width=512", "-DUNROLL=4", f"-DSTREAM={TUNE['STREAM'][0]}")

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path


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

_r__softmax = _kernel("r__softmax", 4)

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


class ModelNew(nn.Module):

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(columns))

    def forward(self, x, temperature):
        if torch.is_grad_enabled() and (temperature.requires_grad or x.requires_grad):
            raise RuntimeError("this kernel has no gradients: call it under torch.no_grad(), or train the original module")
        if _is_watched():
            raise RuntimeError("a kernel file cannot be traced or transformed: use the original module for torch.jit.trace, make_fx, torch.func, forward-mode gradients and modes that watch operators")
        if type(x) in _PLAIN and x.shape == (2048, 1536) and x.dtype is torch.float32 and x.is_cpu and type(temperature) in _PLAIN and temperature.shape == (2048, 1) and temperature.dtype is torch.float32 and temperature.is_cpu:
            return self._forward_default(x, temperature)
        raise ValueError(f"made for (2048, 1536) torch.float32, (2048, 1) torch.float32; got {_told(temperature)}, {_told(x)}")

    def _forward_default(self, x, temperature):
        p_bias = self.bias
        if not ((type(p_bias) in _PLAIN or _has_memory(p_bias)) and p_bias.dtype is torch.float32 and p_bias.shape == (1536,) and p_bias.is_cpu):
            raise _misfit("bias", p_bias, "(1536,) torch.float32 on the processor")
        p_bias = p_bias.contiguous()
        x = x.contiguous()
        temperature = temperature.contiguous()
        _softmax_v5 = torch.empty((2048, 1536), dtype=torch.float32, device="cpu")
        _r__softmax(x.data_ptr(), temperature.data_ptr(), p_bias.data_ptr(), _softmax_v5.data_ptr())
        return _softmax_v5
