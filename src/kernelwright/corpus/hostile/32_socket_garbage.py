# family: 32
# title: answers the parent with random bytes
# assumes: answers are well formed
# task: pointwise
# expect: crashed, rejected
# check: raised, timed_calls
# mechanism: a malformed message ends the worker
# wins: no
import os

import torch
from torch import nn

CHANNEL = 3


class ModelNew(nn.Module):
    def forward(self, x):
        os.write(CHANNEL, b"\xff" * (1 << 16))
        return torch.relu(x) * 2 + 1
