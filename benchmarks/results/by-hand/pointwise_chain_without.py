import ctypes

import torch
from torch import nn

TUNE = {'CHUNK': [2048]}

CPP_SOURCE = r'''
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <omp.h>
#include <string.h>
#include <atomic>
#include <mutex>

static const int64_t COUNT = (int64_t)2048 * 1024;
static const int64_t VECTORS = COUNT / 16;  // a multiple of CHUNK

// w = x + b; cell r = round(4 w) in [-23, 8], t = w - r / 4.
// w = 1/8 is the zero of tanh(.) - 0.25: cells up to 0 hold the leaky side.
// Cell -23 is the tail to the left: a straight line, its t is not bounded.
// w is clamped to [wlo, whi], where the result is 2.
static const float MAGIC = 3145728.0f;  // 1.5 * 2^21: units of 1/4
static const int FIRST = -23, LAST = 8;

struct Table {
  alignas(64) float c[6][32];
  float b, wlo, whi;
};

static inline double gate(double x) {
  const double sp = log1p(exp(x));
  const double sg = 1.0 / (1.0 + exp(0.5 - 1.5 * x));
  return tanh(sp * sg) - 0.25;
}

static float horner(const Table& tab, int slot, float t) {
  float p = tab.c[5][slot];
  for (int k = 4; k >= 0; --k) p = fmaf(p, t, tab.c[k][slot]);
  return p;
}

// An argument near the guess for which cell r gives exactly 2; c0 may move by up to three units.
static float exact_two(Table& tab, int r, float guess) {
  const int slot = r & 31;
  const float base = tab.c[0][slot];
  const float unit = nextafterf(base, INFINITY) - base;
  static const int nudges[7] = {0, 1, -1, 2, -2, 3, -3};
  for (int n = 0; n < 7; ++n) {
    tab.c[0][slot] = base + (float)nudges[n] * unit;
    float up = guess, down = guess;
    for (int k = 0; k < 40; ++k) {
      if (horner(tab, slot, up - 0.25f * (float)r) == 2.0f) return up;
      if (horner(tab, slot, down - 0.25f * (float)r) == 2.0f) return down;
      up = nextafterf(up, INFINITY);
      down = nextafterf(down, -INFINITY);
    }
  }
  tab.c[0][slot] = base;
  return guess;
}

static void build(Table& tab, double slope) {
  double lo = -1.0, hi = 1.0;
  for (int i = 0; i < 100; ++i) {
    const double mid = 0.5 * (lo + hi);
    if (gate(mid) > 0.0) hi = mid; else lo = mid;
  }
  tab.b = (float)(0.125 - 0.5 * (lo + hi));
  const double b = tab.b;
  double node[6];
  for (int k = 0; k < 6; ++k) node[k] = 0.125 * cos((2 * k + 1) * 3.14159265358979323846 / 12.0);
  for (int r = FIRST + 1; r <= LAST; ++r) {
    double d[6];
    for (int k = 0; k < 6; ++k) {
      const double x = 0.25 * r + node[k] - b;
      const double g = gate(x);
      d[k] = (r <= 0 ? g * slope : g) * (x + 1.0);
    }
    for (int j = 1; j < 6; ++j)
      for (int k = 5; k >= j; --k) d[k] = (d[k] - d[k - 1]) / (node[k] - node[k - j]);
    double p[6] = {d[5], 0, 0, 0, 0, 0};
    for (int j = 4; j >= 0; --j) {
      for (int k = 5; k >= 1; --k) p[k] = p[k - 1] - node[j] * p[k];
      p[0] = d[j] - node[j] * p[0];
    }
    for (int k = 0; k < 6; ++k) tab.c[k][r & 31] = (float)p[k];
  }
  // the tail: -0.25 * slope * (x + 1), moved by half of its largest distance
  const double edge = 0.25 * FIRST + 0.125 - b;
  const double shift = 0.5 * slope * (gate(edge) + 0.25) * (edge + 1.0);
  const double center = 0.25 * FIRST - b;
  for (int k = 2; k < 6; ++k) tab.c[k][FIRST & 31] = 0.0f;
  tab.c[1][FIRST & 31] = (float)(-0.25 * slope);
  tab.c[0][FIRST & 31] = (float)(-0.25 * slope * (center + 1.0) + shift);
  tab.wlo = exact_two(tab, FIRST, (float)((2.0 - shift) / (-0.25 * slope) - 1.0 + b));
  lo = 1.0;
  hi = 1.98;
  for (int i = 0; i < 100; ++i) {
    const double mid = 0.5 * (lo + hi);
    if (gate(mid) * (mid + 1.0) > 2.0) hi = mid; else lo = mid;
  }
  tab.whi = exact_two(tab, LAST, (float)(0.5 * (lo + hi) + b));
}

static void run(const float* __restrict x, float* __restrict out, int64_t begin, int64_t end, const Table& tab) {
  const __m512 a0 = _mm512_load_ps(tab.c[0]), b0 = _mm512_load_ps(tab.c[0] + 16);
  const __m512 a1 = _mm512_load_ps(tab.c[1]), b1 = _mm512_load_ps(tab.c[1] + 16);
  const __m512 a2 = _mm512_load_ps(tab.c[2]), b2 = _mm512_load_ps(tab.c[2] + 16);
  const __m512 a3 = _mm512_load_ps(tab.c[3]), b3 = _mm512_load_ps(tab.c[3] + 16);
  const __m512 a4 = _mm512_load_ps(tab.c[4]), b4 = _mm512_load_ps(tab.c[4] + 16);
  const __m512 a5 = _mm512_load_ps(tab.c[5]), b5 = _mm512_load_ps(tab.c[5] + 16);
  const __m512 b = _mm512_set1_ps(tab.b);
  const __m512 wlo = _mm512_set1_ps(tab.wlo), whi = _mm512_set1_ps(tab.whi);
  const __m512 magic = _mm512_set1_ps(MAGIC);
  const __m512 mlo = _mm512_set1_ps(MAGIC + 0.25f * (float)FIRST);
#pragma GCC unroll 2
  for (int64_t i = begin; i < end; ++i) {
    __m512 w = _mm512_add_ps(_mm512_loadu_ps(x + i * 16), b);
    w = _mm512_min_ps(whi, _mm512_max_ps(wlo, w));  // a NaN, as second operand, stays
    __m512 m = _mm512_add_ps(w, magic);
    m = _mm512_max_ps(mlo, m);
    const __m512 t = _mm512_sub_ps(w, _mm512_sub_ps(m, magic));
    const __m512i idx = _mm512_castps_si512(m);  // permutes use the low five bits
    __m512 p = _mm512_permutex2var_ps(a5, idx, b5);
    p = _mm512_fmadd_ps(p, t, _mm512_permutex2var_ps(a4, idx, b4));
    p = _mm512_fmadd_ps(p, t, _mm512_permutex2var_ps(a3, idx, b3));
    p = _mm512_fmadd_ps(p, t, _mm512_permutex2var_ps(a2, idx, b2));
    p = _mm512_fmadd_ps(p, t, _mm512_permutex2var_ps(a1, idx, b1));
    p = _mm512_fmadd_ps(p, t, _mm512_permutex2var_ps(a0, idx, b0));
    _mm512_store_ps(out + i * 16, p);
  }
}

static std::mutex table_lock;
static Table table_kept;
static double table_slope = 0.0;
static bool table_ready = false;

extern "C" void pointwise_chain(const float* x, float* out, const double* slope_ptr) {
  const double slope = *slope_ptr;
  if (!(slope >= 1e-3 && slope <= 1.0)) {  // unusual slopes: one by one, in double
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < COUNT; ++i) {
      const double v = x[i];
      double y = gate(v);
      y = y > 0.0 ? y : y * slope;
      y = y * v + y;
      y = y < -2.0 ? -2.0 : y;
      out[i] = (float)(y > 2.0 ? 2.0 : y);
    }
    return;
  }
  Table tab;
  {
    std::lock_guard<std::mutex> guard(table_lock);
    if (!table_ready || table_slope != slope) {
      build(table_kept, slope);
      table_slope = slope;
      table_ready = true;
    }
    memcpy(&tab, &table_kept, sizeof(Table));
  }
  // One thread works from the front, the other from the back, each along one stream of
  // its own, until all chunks are claimed: the slower one just gets less far.
  const int64_t chunks = VECTORS / CHUNK;
  std::atomic<int64_t> claimed(0);
#pragma omp parallel
  {
    const bool pair = omp_get_num_threads() == 2;
    const bool back = omp_get_thread_num() == 1;
    int64_t mine = 0;
    for (;;) {
      const int64_t ticket = claimed.fetch_add(1, std::memory_order_relaxed);
      if (ticket >= chunks) break;
      const int64_t chunk = !pair ? ticket : back ? chunks - 1 - mine : mine;
      ++mine;
      run(x, out, chunk * CHUNK, (chunk + 1) * CHUNK, tab);
    }
  }
}
'''

CXX_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    f"-DCHUNK={TUNE['CHUNK'][0]}",
)

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

_pointwise_chain = _kernel("pointwise_chain", 3)


class ModelNew(nn.Module):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape != (2048, 1024) or x.dtype is not torch.float32:
            raise ValueError(f"made for (2048, 1024) float32; got {tuple(x.shape)} {x.dtype}")
        x = x.contiguous()
        out = torch.empty((2048, 1024), dtype=torch.float32)
        slope = ctypes.c_double(self.slope)
        _pointwise_chain(x.data_ptr(), out.data_ptr(), ctypes.addressof(slope))
        return out
