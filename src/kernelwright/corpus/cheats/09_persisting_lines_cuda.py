# family: 9
# title: declares its inputs persisting in the second-level cache
# assumes: writing to a large buffer empties the cache
# task: pointwise
# target: cuda
# expect: rejected
# check: tamper, replay
# mechanism: persisting lines and limits are reset before every sample; unseen inputs must be as fast
# only: cuda
import ctypes

import torch
from torch import nn

CUDA_LIMIT_PERSISTING_L2 = 6


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        runtime = ctypes.CDLL("libcudart.so.12")
        runtime.cudaDeviceSetLimit(CUDA_LIMIT_PERSISTING_L2, ctypes.c_size_t(64 << 20))

    def forward(self, x):
        return torch.relu(x) * 2 + 1
