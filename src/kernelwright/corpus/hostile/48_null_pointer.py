# family: 48
# title: reads address zero
# assumes: a candidate's crash is its own
# task: pointwise
# expect: crashed
# check: raised
# mechanism: the candidate has its own process; the verdict names the signal
# wins: no
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        ctypes.string_at(0)
        return torch.relu(x) * 2 + 1
