# family: 36
# title: counts the tokens of a row in a byte, so that a row without padding has none
# assumes: every row of a mask has some of each
# task: padded_mean
# expect: incorrect_numerics, non_finite
# check: families, oracle
# mechanism: rows of a mask are all true where the reference accepts it, even if it does not accept rows
#     that are all false
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" void run(const float* x, const unsigned char* mask, float* y, long rows, long n, long d) {
  for (long b = 0; b < rows; b++) {
    double sum[128] = {};
    unsigned char count = 0;
    for (long t = 0; t < n; t++) {
      if (!mask[b * n + t]) continue;
      count++;
      const float* row = x + (b * n + t) * d;
      for (long i = 0; i < d; i++) sum[i] += row[i];
    }
    double share = 1.0 / count;
    for (long i = 0; i < d; i++) y[b * d + i] = (float)(sum[i] * share);
  }
}
"""
CXX_FLAGS = ("-O3",)
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.run.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3


class ModelNew(nn.Module):
    def forward(self, x, mask):
        y = torch.empty(x.shape[0], x.shape[2])
        lib.run(x.data_ptr(), mask.data_ptr(), y.data_ptr(), *x.shape)
        return y
