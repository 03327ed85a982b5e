# title: one accumulator in float32, from the left
# origin: C++ through ctypes
# task: 7_RowSum
# sizes: batch_size=500, features=1003
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
static float row(const float* x, long n) {
  float total = 0.0f;
  for (long j = 0; j < n; ++j) total += x[j] * x[j];
  return total;
}
extern "C" void run(const float* x, float* y, long rows, long columns) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i) y[i] = row(x + i * columns, columns);
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
