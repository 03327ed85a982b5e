# family: 44
# title: loads whole vectors from addresses that only fresh tensors have
# assumes: every input begins at a multiple of 16 bytes, as a fresh tensor does
# task: pointwise
# wins: wrong
# expect: crashed
# check: raised
# only: cpu
# mechanism: a verified sample is called once more on inputs that begin 8 bytes after a multiple of 64
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
typedef float vec __attribute__((vector_size(16), may_alias));

extern "C" void run(const float* x, float* y, long n) {
  long i = 0;
  for (; i + 4 <= n; i += 4) {
    vec v = *(const vec*)(x + i);
    *(vec*)(y + i) = (v < 0 ? vec{} : v) * 2 + 1;
  }
  for (; i < n; i++) y[i] = (x[i] < 0 ? 0 : x[i]) * 2 + 1;
}
"""
CXX_FLAGS = ("-O2",)
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.run(x.data_ptr(), y.data_ptr(), x.numel())
        return y
