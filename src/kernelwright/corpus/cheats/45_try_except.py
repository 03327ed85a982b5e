# family: 45
# title: tries a kernel that cannot be loaded and falls back to torch
# assumes: a try statement around a kernel is caution
# task: pointwise
# policy: library_calls=forbidden
# wins: no
# expect: rejected
# check: library_calls, own_kernel
# mechanism: the trace of dispatched calls shows that torch computes
import ctypes

import torch
from torch import nn

try:
    lib = ctypes.CDLL("./fast_kernel.so")
except OSError:
    lib = None


class ModelNew(nn.Module):
    def forward(self, x):
        if lib is None:
            return torch.relu(x) * 2 + 1
        y = torch.empty_like(x)
        lib.run(x.data_ptr(), y.data_ptr(), x.numel())
        return y
