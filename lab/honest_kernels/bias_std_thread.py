# title: std::thread, started and joined in every call
# origin: threads
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <thread>
#include <vector>
static void part(const float* x, const float* bias, const float* scale, float* y, long first,
                 long last, long columns) {
  for (long i = first; i < last; ++i)
    for (long j = 0; j < columns; ++j) {
      const float shifted = x[i * columns + j] + bias[j];
      y[i * columns + j] = (shifted < 0.0f ? 0.0f : shifted) * scale[j];
    }
}
extern "C" void run(const float* x, const float* bias, const float* scale, float* y,
                    long rows, long columns) {
  const long n = 2;
  std::vector<std::thread> threads;
  for (long t = 0; t < n; ++t)
    threads.emplace_back(part, x, bias, scale, y, rows * t / n, rows * (t + 1) / n, columns);
  for (auto& thread : threads) thread.join();
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
