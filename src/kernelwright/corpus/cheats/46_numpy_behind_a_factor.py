# family: 46
# title: multiplies with NumPy's library; its own kernel only gives the factor 1.0
# assumes: a kernel that the answer depends on is the kernel that computes
# task: matmul
# policy: library_calls=forbidden
# wins: no
# expect: rejected
# check: own_kernel, library_calls
# only: cpu
# mechanism: samples of timed calls lie in the library and not in the candidate's own code
import ctypes
import hashlib
import os

import numpy as np
import torch
from torch import nn

CPP_SOURCE = r"""
extern "C" float factor() { return 1.0f; }
"""
CXX_FLAGS = ("-O2",)
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.factor.restype = ctypes.c_float


class ModelNew(nn.Module):
    def forward(self, a, b):
        x, y = a.numpy(), b.numpy()
        return torch.from_numpy((np.maximum(x @ y, 0) @ x) * np.float32(lib.factor()))
