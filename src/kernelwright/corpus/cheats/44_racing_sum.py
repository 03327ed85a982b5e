# family: 44
# title: threads add to one sum without synchronisation
# assumes: a race that was won once is won always
# task: loss
# wins: no
# expect: incorrect_numerics
# check: oracle, families, timed_calls, replay
# mechanism: outputs are compared on many samples, in timed calls and in the replay
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" void run(const float* x, const float* y, float* out, long n) {
  volatile double sum = 0;
  #pragma omp parallel for schedule(static, 64) num_threads(4)
  for (long i = 0; i < n; i++) { double d = (double)x[i] - y[i]; sum = sum + d * d; }
  *out = (float)(0.05 * sum / n);
}
"""
CXX_FLAGS = ("-O2", "-fopenmp")
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(())
        lib.run(x.data_ptr(), y.data_ptr(), out.data_ptr(), x.numel())
        return out
