# family: 44
# title: writes slightly beyond an input, like a vector loop without a tail
# assumes: what lies behind an array does not matter
# task: pointwise
# wins: wrong
# expect: mutated_input
# check: inputs
# only: cpu
# mechanism: the memory around inputs is compared as well
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        ctypes.memset(x.data_ptr() + x.numel() * 4, 0, 16)
        return torch.relu(x) * 2 + 1
