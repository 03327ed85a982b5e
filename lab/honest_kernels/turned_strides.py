# title: strides handed to C++
# origin: C++ through ctypes
# task: turned
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <cmath>
extern "C" void run(const float* x, const float* y, float* z,
                    long rows, long columns, long down, long across) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i)
    for (long j = 0; j < columns; ++j)
      z[i * columns + j] = std::tanh(x[i * down + j * across]) + y[i * columns + j];
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
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_long,
    ),
    None,
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty(x.shape)
        y = y.contiguous()
        _run(x.data_ptr(), y.data_ptr(), z.data_ptr(), *x.shape, *x.stride())
        return z
