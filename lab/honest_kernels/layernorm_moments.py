# title: both moments in one pass, in float64
# origin: C++ through ctypes
# task: 12_LayerNorm
# sizes: batch_size=4, steps=57, features=731
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <cmath>
extern "C" void run(const float* x, const float* weight, const float* bias, float* y,
                    long rows, long columns) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i) {
    const float* from = x + i * columns;
    double sum = 0.0, squares = 0.0;
    for (long j = 0; j < columns; ++j) {
      sum += from[j];
      squares += (double)from[j] * from[j];
    }
    const double mean = sum / columns;
    const double scale = 1.0 / std::sqrt(squares / columns - mean * mean + 1e-5);
    for (long j = 0; j < columns; ++j) y[i * columns + j] = (from[j] - mean) * scale * weight[j] + bias[j];
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
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_long,
    ),
    None,
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        y = torch.empty_like(x)
        columns = x.shape[-1]
        pointers = [t.data_ptr() for t in (x, self.norm.weight, self.norm.bias, y)]
        _run(*pointers, x.numel() // columns, columns)
        return y
