# family: 40
# title: reads an expanded input as if it were dense
# assumes: all inputs are row-major
# task: expanded
# expect: incorrect_numerics, non_finite, crashed
# check: oracle, raised
# mechanism: inputs reach a candidate with the strides of the example, and NaN lies around them
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" void run(const float* x, const float* y, float* out, long count) {
#pragma omp parallel for
  for (long i = 0; i < count; ++i) out[i] = x[i] * y[i] + 1.0f;
}
"""
CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp")
_key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
_library = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], _key + ".so"))
_library.run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        _library.run(x.data_ptr(), y.data_ptr(), out.data_ptr(), x.numel())
        return out
