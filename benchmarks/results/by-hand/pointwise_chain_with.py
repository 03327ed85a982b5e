import ctypes

import torch
from torch import nn

TUNE = {'UNROLL': [4]}

CPP_SOURCE = r'''
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <sys/mman.h>
#include <mutex>

#ifndef MADV_HUGEPAGE
#define MADV_HUGEPAGE 14
#endif

#ifndef UNROLL
#define UNROLL 2
#endif
#ifndef REDUCE
#define REDUCE 1
#endif
#ifndef BLOCK
#define BLOCK 1024
#endif

static const int DEG = 4;
static const int KHI = 10;          // segments right of the kink, then one constant segment
static const int LEFT = 31 - KHI;   // segments left of the kink
static const int64_t TOTAL = (int64_t)2048 * 1024;

// s = x * scale + shift; segment j = floor(s) in -LEFT..KHI; r = s - j
// s = 0 is the kink of the leaky step, s = KHI is where the result reaches 2
struct Table {
  alignas(64) float c[DEG + 1][32];
  float scale, shift, low;
  double slope;
  bool ready;
};

static Table table_;
static std::mutex lock_;

static double inner(double x) {  // tanh(softplus(x) * sigmoid(1.5 x - 0.5)) - 0.25
  const double softplus = log1p(exp(x));
  const double gate = 1.0 / (1.0 + exp(0.5 - 1.5 * x));
  return tanh(softplus * gate) - 0.25;
}

static void build(double slope) {
  double a = -1.0, b = 1.0;
  for (int i = 0; i < 100; ++i) {
    const double mid = 0.5 * (a + b);
    if (inner(mid) < 0.0) a = mid; else b = mid;
  }
  const double x0 = 0.5 * (a + b);
  a = 1.0; b = 3.0;
  for (int i = 0; i < 100; ++i) {
    const double mid = 0.5 * (a + b);
    if (inner(mid) * (mid + 1.0) < 2.0) a = mid; else b = mid;
  }
  const double x1 = 0.5 * (a + b);
  Table& t = table_;
  t.scale = (float)((double)KHI / (x1 - x0));
  t.shift = (float)(-x0 * (double)t.scale);
  const double scale = t.scale, shift = t.shift;
  t.low = (float)((-(double)LEFT + 0.01 - shift) / scale);
  for (int k = 0; k <= DEG; ++k)
    for (int i = 0; i < 32; ++i) t.c[k][i] = 0.0f;

  for (int j = -LEFT; j < KHI; ++j) {
    double node[DEG + 1], d[DEG + 1], p[DEG + 1];
    for (int i = 0; i <= DEG; ++i)
      node[i] = 0.5 - 0.5 * cos((2.0 * i + 1.0) * 3.14159265358979323846 / (2.0 * (DEG + 1)));
    if (j == 0) {  // the result is small here: exact at x = 0, and denser towards the kink at r = 0
      node[0] = shift; node[1] = 0.15; node[2] = 0.45; node[3] = 0.77; node[4] = 0.975;
    }
    for (int i = 0; i <= DEG; ++i) {
      const double x = ((double)j + node[i] - shift) / scale;
      d[i] = (j < 0 ? slope : 1.0) * inner(x) * (x + 1.0);
    }
    for (int k = 1; k <= DEG; ++k)
      for (int i = DEG; i >= k; --i) d[i] = (d[i] - d[i - 1]) / (node[i] - node[i - k]);
    for (int i = 0; i <= DEG; ++i) p[i] = 0.0;
    p[0] = d[DEG];
    for (int i = DEG - 1; i >= 0; --i) {  // p = p * (r - node[i]) + d[i]
      for (int k = DEG; k >= 1; --k) p[k] = p[k - 1] - node[i] * p[k];
      p[0] = d[i] - node[i] * p[0];
    }
    for (int k = 0; k <= DEG; ++k) t.c[k][j & 31] = (float)p[k];
  }
  t.c[0][KHI] = 2.0f;
  t.slope = slope;
  t.ready = true;
}

// the elements below the lowest segment (x < -3.8, -inf among them): there y = softplus * gate is below 1e-4,
// tanh(y) = y to 1e-12 and softplus = log1p(e) = e - e^2/2 + e^3/3 - ... with e = exp(x) below 0.023
__attribute__((noinline, cold)) static void redo(const float* in, float* o, float low, double slope) {
  const __m512 bound = _mm512_set1_ps(low);
  for (int64_t i = 0; i < BLOCK; i += 16) {
    unsigned mask = _mm512_cmp_ps_mask(_mm512_loadu_ps(in + i), bound, _CMP_LT_OQ);
    while (mask) {
      const int64_t k = i + __builtin_ctz(mask);
      mask &= mask - 1;
      const double x = in[k];
      const double e = exp(x);
      const double g = 0.60653065971263342 * e * sqrt(e);  // exp(1.5 x - 0.5)
      const double softplus = e * (1.0 - e * (0.5 - e * (1.0 / 3.0 - 0.25 * e)));
      const double z = slope * (softplus * g / (1.0 + g) - 0.25);
      const double v = z * x + z;
      o[k] = (float)(v > 2.0 ? 2.0 : v < -2.0 ? -2.0 : v);
    }
  }
}

// A hint for fresh output memory; an error of madvise changes nothing and is ignored.
static void advise(float* out) {
  const uintptr_t page = (uintptr_t)1 << 21;
  const uintptr_t from = ((uintptr_t)out + page - 1) & ~(page - 1);
  const uintptr_t to = (uintptr_t)(out + TOTAL) & ~(page - 1);
  if (to > from) madvise((void*)from, to - from, MADV_HUGEPAGE);
}

#define LOADC(k) const __m512 lo##k = _mm512_load_ps(t.c[k]), hi##k = _mm512_load_ps(t.c[k] + 16);
#define LUT(k) _mm512_permutex2var_ps(lo##k, idx, hi##k)

extern "C" void pointwise_chain(const float* __restrict x, float* __restrict out, double slope) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (!table_.ready || table_.slope != slope) build(slope);
  }
  advise(out);
  const Table& t = table_;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < TOTAL / BLOCK; ++block) {
    LOADC(0) LOADC(1) LOADC(2) LOADC(3) LOADC(4)
    const __m512 scale = _mm512_set1_ps(t.scale), shift = _mm512_set1_ps(t.shift);
    const __m512 high = _mm512_set1_ps((float)KHI);
    const __m512 magic = _mm512_set1_ps(12582912.0f);
    const float* __restrict in = x + block * BLOCK;
    float* __restrict o = out + block * BLOCK;
    // as unsigned integers the floats below a negative bound are the ones above its bits
    __m512i most = _mm512_setzero_si512();
    for (int64_t i = 0; i < BLOCK; i += 16 * UNROLL) {
#pragma GCC unroll 8
      for (int k = 0; k < UNROLL; ++k) {
        const __m512 v = _mm512_loadu_ps(in + i + 16 * k);
        most = _mm512_max_epu32(most, _mm512_castps_si512(v));
        __m512 s = _mm512_fmadd_ps(v, scale, shift);
        s = _mm512_min_ps(high, s);          // the second operand is kept for NaN
        const __m512 m = _mm512_add_round_ps(s, magic, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
        const __m512i idx = _mm512_castps_si512(m);
#if REDUCE
        const __m512 r = _mm512_reduce_ps(s, 0x09);  // s - floor(s), exact; independent of m
#else
        const __m512 r = _mm512_sub_ps(s, _mm512_sub_ps(m, magic));
#endif
        __m512 p = _mm512_fmadd_ps(LUT(4), r, LUT(3));
        p = _mm512_fmadd_ps(p, r, LUT(2));
        p = _mm512_fmadd_ps(p, r, LUT(1));
        p = _mm512_fmadd_ps(p, r, LUT(0));
        _mm512_storeu_ps(o + i + 16 * k, p);
      }
    }
    const __mmask16 below = _mm512_cmpgt_epu32_mask(most, _mm512_castps_si512(_mm512_set1_ps(t.low)));
    if (__builtin_expect(below != 0, 0)) redo(in, o, t.low, slope);
  }
}
'''

CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", f"-DUNROLL={TUNE['UNROLL'][0]}", "-DBLOCK=2048", "-DREDUCE=1")

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

_chain = _kernel("pointwise_chain", 2)
_chain = getattr(_library, "pointwise_chain")
_chain.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double]
_chain.restype = None


class ModelNew(nn.Module):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x):
        if x.shape != (2048, 1024) or x.dtype is not torch.float32:
            raise ValueError(f"made for (2048, 1024) float32; got {tuple(x.shape)} {x.dtype}")
        slope = float(self.slope)
        if not abs(slope) <= 2.0:
            raise ValueError(f"made for slopes of at most 2 in size; got {slope}")
        x = x.contiguous()
        out = torch.empty((2048, 1024), dtype=torch.float32)
        _chain(x.data_ptr(), out.data_ptr(), slope)
        return out
