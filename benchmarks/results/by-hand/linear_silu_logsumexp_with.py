# Approach: One fused AVX-512 kernel: x is packed transposed (lanes = rows), a register-blocked GEMM broadcasts weights straight from their rows, and SiLU/exp/sum are applied on the accumulators with an unshifted sum; rows whose sum is not finite are redone by a careful max-shifted path.
import torch
from torch import nn

CPP_SOURCE = r'''
#include <stdint.h>
#include <math.h>
#include <immintrin.h>
#include <omp.h>

#ifndef NB
#define NB 12
#endif
#ifndef XPF
#define XPF 0
#endif
#ifndef ORDER
#define ORDER 0
#endif

static const int M = 512, K = 768, N = 1024;
static const int PR = 32;            // rows in a panel
static const int PANELS = M / PR;    // 16

alignas(64) static float g_pack[(size_t)512 * 768 + 4096];
alignas(64) static float g_sum[512];

static inline __attribute__((always_inline)) void transpose16(const float* __restrict src, float* __restrict dst) {
  // src: 16 rows, stride K; dst: 16 columns, stride PR
  __m512 r[16], t[16], u[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_ps(src + i * K);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]);
    const __m512d c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);
    u[4 * i + 0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    u[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    u[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    u[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 a = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
    const __m512 a2 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
    const __m512 b2 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
    _mm512_store_ps(dst + (c + 0) * PR, _mm512_shuffle_f32x4(a, b, 0x88));
    _mm512_store_ps(dst + (c + 4) * PR, _mm512_shuffle_f32x4(a2, b2, 0x88));
    _mm512_store_ps(dst + (c + 8) * PR, _mm512_shuffle_f32x4(a, b, 0xdd));
    _mm512_store_ps(dst + (c + 12) * PR, _mm512_shuffle_f32x4(a2, b2, 0xdd));
  }
}

// 2^f for |f| <= 0.5, relative error about 1e-7
static inline __attribute__((always_inline)) __m512 exp2_poly(__m512 f) {
  __m512 p = _mm512_set1_ps(0.00134003f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.00967589f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.05550327f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.24022109f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.69314721f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return p;
}

// exp(silu(y)); infinity where silu(y) > 88.7, NaN for NaN and -infinity
static inline __attribute__((always_inline)) __m512 exp_silu(__m512 y) {
  const __m512 nl2e = _mm512_set1_ps(-1.44269504f), l2e = _mm512_set1_ps(1.44269504f);
  const __m512 c = _mm512_max_ps(_mm512_set1_ps(-90.0f), _mm512_min_ps(_mm512_set1_ps(60.0f), y));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(c, nl2e), 8);
  const __m512 e = _mm512_scalef_ps(exp2_poly(_mm512_fmsub_ps(c, nl2e, n)), n);
  __m512 s = _mm512_div_ps(y, _mm512_add_ps(e, _mm512_set1_ps(1.0f)));
  s = _mm512_min_ps(_mm512_set1_ps(90.0f), s);  // keeps NaN (second operand)
  const __m512 m = _mm512_roundscale_ps(_mm512_mul_ps(s, l2e), 8);
  return _mm512_scalef_ps(exp2_poly(_mm512_fmsub_ps(s, l2e, m)), m);
}

template <int T>
static __attribute__((noinline)) void tile(const float* __restrict xp, const float* __restrict w,
                                           const float* __restrict b, float* __restrict sum,
                                           const float* pf0, const float* pf1) {
  __m512 a0[T], a1[T];
#pragma GCC unroll 16
  for (int j = 0; j < T; ++j) { a0[j] = _mm512_set1_ps(b[j]); a1[j] = a0[j]; }
  for (int kb = 0; kb < K; kb += 16) {
    _mm_prefetch((const char*)(pf0 + kb), _MM_HINT_T1);
    _mm_prefetch((const char*)(pf1 + kb), _MM_HINT_T1);
#pragma GCC unroll 4
    for (int u = 0; u < 16; ++u) {
      const float* __restrict xk = xp + (kb + u) * PR;
      const float* __restrict wk = w + kb + u;
      const __m512 x0 = _mm512_load_ps(xk), x1 = _mm512_load_ps(xk + 16);
#if XPF
      _mm_prefetch((const char*)(xk + 16 * PR), _MM_HINT_T0);
      _mm_prefetch((const char*)(xk + 16 * PR + 16), _MM_HINT_T0);
#endif
#pragma GCC unroll 16
      for (int j = 0; j < T; ++j) {
        const __m512 v = _mm512_set1_ps(wk[j * K]);
        a0[j] = _mm512_fmadd_ps(x0, v, a0[j]);
        a1[j] = _mm512_fmadd_ps(x1, v, a1[j]);
      }
    }
  }
  __m512 s0 = _mm512_setzero_ps(), s1 = _mm512_setzero_ps();
#pragma GCC unroll 16
  for (int j = 0; j < T; ++j) {
    s0 = _mm512_add_ps(s0, exp_silu(a0[j]));
    s1 = _mm512_add_ps(s1, exp_silu(a1[j]));
  }
  _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), s0));
  _mm512_store_ps(sum + 16, _mm512_add_ps(_mm512_load_ps(sum + 16), s1));
}

// One row, with the maximum taken out: for rows whose plain sum is not finite.
static __attribute__((noinline)) float careful_row(const float* __restrict x, const float* __restrict w,
                                                   const float* __restrict b) {
  float s[N];
  bool nan = false;
  float mx = -INFINITY;
  for (int n = 0; n < N; ++n) {
    const float* __restrict wr = w + (int64_t)n * K;
    __m512 p = _mm512_setzero_ps(), q = _mm512_setzero_ps();
    for (int k = 0; k < K; k += 32) {
      p = _mm512_fmadd_ps(_mm512_loadu_ps(x + k), _mm512_loadu_ps(wr + k), p);
      q = _mm512_fmadd_ps(_mm512_loadu_ps(x + k + 16), _mm512_loadu_ps(wr + k + 16), q);
    }
    const float y = _mm512_reduce_add_ps(_mm512_add_ps(p, q)) + b[n];
    const float v = y / (1.0f + expf(-y));
    s[n] = v;
    if (v != v) nan = true;
    if (v > mx) mx = v;
  }
  if (nan) return NAN;
  if (mx == INFINITY) return INFINITY;
  float total = 0.0f;
  for (int n = 0; n < N; ++n) total += expf(s[n] - mx);
  return logf(total) + mx;
}

extern "C" void linear_silu_lse(const float* __restrict x, const float* __restrict w,
                                const float* __restrict b, float* __restrict out) {
#pragma omp parallel
  {
    const int t = omp_get_thread_num(), nt = omp_get_num_threads();
    const int p0 = PANELS * t / nt, p1 = PANELS * (t + 1) / nt, np = p1 - p0;
    for (int p = p0; p < p1; ++p) {
      float* dst = g_pack + (size_t)p * PR * K;
      const float* src = x + (size_t)p * PR * K;
      for (int k = 0; k < K; k += 16) {
        transpose16(src + k, dst + k * PR);
        transpose16(src + 16 * K + k, dst + k * PR + 16);
      }
      for (int i = 0; i < PR; ++i) g_sum[p * PR + i] = 0.0f;
    }
    const int FULL = N / NB * NB;
    const int REST = N % NB;
#if ORDER == 0
    for (int n = 0; n < FULL; n += NB) {
      const int nn = n + 2 * NB <= N ? n + NB : n;
      for (int p = p0; p < p1; ++p) {
        int j0 = p - p0, j1 = p - p0 + np;
        if (j0 >= NB) j0 = NB - 1;
        if (j1 >= NB) j1 = j0;
        tile<NB>(g_pack + (size_t)p * PR * K, w + (size_t)n * K, b + n, g_sum + p * PR,
                 w + (size_t)(nn + j0) * K, w + (size_t)(nn + j1) * K);
      }
    }
    if (REST) {
      for (int p = p0; p < p1; ++p)
        tile<REST ? REST : 1>(g_pack + (size_t)p * PR * K, w + (size_t)FULL * K, b + FULL, g_sum + p * PR,
                              w + (size_t)FULL * K, w + (size_t)FULL * K);
    }
#else
    for (int p = p0; p < p1; ++p) {
      for (int n = 0; n < FULL; n += NB) {
        const int nn = n + 2 * NB <= N ? n + NB : n;
        tile<NB>(g_pack + (size_t)p * PR * K, w + (size_t)n * K, b + n, g_sum + p * PR,
                 w + (size_t)nn * K, w + (size_t)(nn + NB / 2) * K);
      }
      if (REST)
        tile<REST ? REST : 1>(g_pack + (size_t)p * PR * K, w + (size_t)FULL * K, b + FULL, g_sum + p * PR,
                              w + (size_t)FULL * K, w + (size_t)FULL * K);
    }
#endif
    for (int r = p0 * PR; r < p1 * PR; ++r) {
      const float s = g_sum[r];
      if (s > 0.0f && s < 3.0e38f) out[r] = logf(s);
      else out[r] = careful_row(x + (size_t)r * K, w, b);
    }
  }
}
'''

TUNE = {'NB': [12], 'XPF': [0], 'ORDER': [0]}

CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
             "-ffp-contract=fast", f"-DNB={TUNE['NB'][0]}", f"-DXPF={TUNE['XPF'][0]}", f"-DORDER={TUNE['ORDER'][0]}")

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

_linear_silu_lse = _kernel("linear_silu_lse", 4)


class ModelNew(nn.Module):
    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape != (512, 768) or x.dtype is not torch.float32:
            raise ValueError(f"made for (512, 768) float32; got {tuple(x.shape)} {x.dtype}")
        weight, bias = self.linear.weight, self.linear.bias
        if weight.shape != (1024, 768) or weight.dtype is not torch.float32:
            raise ValueError(f"made for a (1024, 768) float32 weight; got {tuple(weight.shape)} {weight.dtype}")
        if bias.shape != (1024,) or bias.dtype is not torch.float32:
            raise ValueError(f"made for a (1024,) float32 bias; got {tuple(bias.shape)} {bias.dtype}")
        x = x.contiguous()
        weight = weight.contiguous()
        bias = bias.contiguous()
        out = torch.empty(512, dtype=torch.float32)
        _linear_silu_lse(x.data_ptr(), weight.data_ptr(), bias.data_ptr(), out.data_ptr())
        return out
