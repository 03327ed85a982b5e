# title: tiles in C++, packed columns in scratch of its own
# origin: C++ through ctypes, own scratch
# task: 29_SquareMatmul
# sizes: size=259
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <algorithm>
#include <vector>
extern "C" void run(const float* a, const float* b, float* c, long n) {
  const long tile = 64;
#pragma omp parallel for schedule(dynamic)
  for (long j0 = 0; j0 < n; j0 += tile) {
    const long width = std::min(tile, n - j0);
    std::vector<float> packed(n * width);
    for (long k = 0; k < n; ++k) std::copy_n(b + k * n + j0, width, &packed[k * width]);
    for (long i = 0; i < n; ++i) {
      float row[64] = {};
      for (long k = 0; k < n; ++k)
        for (long j = 0; j < width; ++j) row[j] += a[i * n + k] * packed[k * width + j];
      std::copy_n(row, width, c + i * n + j0);
    }
  }
}
"""
CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp")
_key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
_library = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], _key + ".so"))
_run = _library.run
_run.argtypes, _run.restype = (
    (
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_long,
    ),
    None,
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        _run(a.data_ptr(), b.data_ptr(), c.data_ptr(), a.shape[0])
        return c
