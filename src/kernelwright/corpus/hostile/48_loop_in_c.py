# family: 48
# title: loops forever in C++, where Python cannot interrupt the loop
# assumes: a call can be interrupted
# task: pointwise
# expect: timeout
# check: limits
# mechanism: every wait has a limit; then the process is killed
# wins: no
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = """extern "C" void run() { volatile long n = 0; for (;;) n = n + 1; }"""
CXX_FLAGS = ("-O2",)
KEY = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
LIBRARY = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], KEY + ".so"))


class ModelNew(nn.Module):
    def forward(self, x):
        LIBRARY.run()
        return torch.relu(x) * 2 + 1
