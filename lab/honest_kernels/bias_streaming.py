# title: stores past the cache
# origin: C++ through ctypes
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#ifdef __SSE2__
#include <immintrin.h>
#endif
extern "C" void run(const float* x, const float* bias, const float* scale, float* y,
                    long rows, long columns) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i)
    for (long j = 0; j < columns; ++j) {
      const float shifted = x[i * columns + j] + bias[j];
      const float result = (shifted < 0.0f ? 0.0f : shifted) * scale[j];
#ifdef __SSE2__
      _mm_stream_si32((int*)(y + i * columns + j), __builtin_bit_cast(int, result));
#else
      y[i * columns + j] = result;
#endif
    }
#ifdef __SSE2__
  _mm_sfence();
#endif
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
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_long,
    ),
    None,
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        y = torch.empty_like(x)
        _run(x.data_ptr(), self.bias.data_ptr(), self.scale.data_ptr(), y.data_ptr(), *x.shape)
        return y
