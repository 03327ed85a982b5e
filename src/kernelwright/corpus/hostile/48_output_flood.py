# family: 48
# title: writes 300 MB to stdout and stderr
# assumes: output is short
# task: pointwise
# expect: verified, runtime_error
# check: raised
# mechanism: its output goes to memory of fixed size
# wins: no
import contextlib
import os

import torch
from torch import nn

FLOOD = b"flood " * (1 << 18)


def flood():
    for _ in range(100):
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):
                os.write(descriptor, FLOOD)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        flood()

    def forward(self, x):
        return torch.relu(x) * 2 + 1
