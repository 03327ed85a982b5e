# family: 44
# title: never writes the last elements, where the right values often lie already
# assumes: memory that was right in the last call is right in this one
# task: pointwise
# wins: no
# expect: incorrect_numerics, non_finite
# check: oracle
# mechanism: during verification memory is filled before it is handed out
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" void run(const float* x, float* y, long n) {
  for (long i = 0; i + 16 < n; i++) y[i] = (x[i] < 0 ? 0 : x[i]) * 2 + 1;
}
"""
CXX_FLAGS = ("-O3", "-march=native")
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.run(x.data_ptr(), y.data_ptr(), x.numel())
        return y
