# title: one pass for maximum and sum
# origin: C++ through ctypes
# task: 27_Softmax
# sizes: batch_size=300, features=731
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <cfloat>
#include <cmath>
extern "C" void run(const float* x, float* y, long rows, long columns) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i) {
    const float* from = x + i * columns;
    float high = -FLT_MAX, total = 0.0f;  // not infinity: a row may begin with it
    for (long j = 0; j < columns; ++j) {
      if (from[j] > high) {
        total *= std::exp(high - from[j]);
        high = from[j];
      }
      total += std::exp(from[j] - high);
    }
    for (long j = 0; j < columns; ++j) y[i * columns + j] = std::exp(from[j] - high) / total;
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
        ctypes.c_long,
        ctypes.c_long,
    ),
    None,
)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _run(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
