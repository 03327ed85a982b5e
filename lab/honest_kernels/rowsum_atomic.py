# title: threads add into each other's rows with atomics: another order every time
# origin: C++ through ctypes
# task: 7_RowSum
# sizes: batch_size=20, features=20003
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" void run(const float* x, float* y, long rows, long columns) {
  for (long i = 0; i < rows; ++i) {
    double total = 0.0;
#pragma omp parallel for schedule(dynamic, 997)
    for (long j = 0; j < columns; j += 64) {
      double part = 0.0;
      for (long k = j; k < columns && k < j + 64; ++k)
        part += (double)x[i * columns + k] * x[i * columns + k];
#pragma omp atomic
      total += part;
    }
    y[i] = (float)total;
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
        y = torch.empty(x.shape[0], 1)
        _run(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
