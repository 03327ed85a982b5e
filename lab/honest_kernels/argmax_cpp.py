# title: a loop in C++
# origin: C++ through ctypes
# task: 10_ArgmaxRows
# sizes: batch_size=4, rows=73, features=531
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" void run(const float* x, long* y, long rows, long columns) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i) {
    long best = 0;
    for (long j = 1; j < columns; ++j)
      if (x[i * columns + j] > x[i * columns + best] || (x[i * columns + j] != x[i * columns + j] &&
                                                         x[i * columns + best] == x[i * columns + best]))
        best = j;
    y[i] = best;
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
        y = torch.empty(x.shape[:-1], dtype=torch.int64)
        _run(x.data_ptr(), y.data_ptr(), y.numel(), x.shape[-1])
        return y
