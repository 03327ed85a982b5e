# family: 44
# title: a reduction reads beyond its input, where a zero usually lies
# assumes: what lies behind an array does not matter
# task: loss
# wins: wrong
# expect: non_finite, incorrect_numerics
# check: oracle
# mechanism: the memory around inputs reads as NaN
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" void run(const float* x, const float* y, float* out, long n) {
  double sum = 0;
  for (long i = 0; i < n + 8; i++) { double d = (double)x[i] - y[i]; sum += d * d; }
  *out = (float)(0.05 * sum / n);
}
"""
CXX_FLAGS = ("-O2",)
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(())
        lib.run(x.data_ptr(), y.data_ptr(), out.data_ptr(), x.numel())
        return out
