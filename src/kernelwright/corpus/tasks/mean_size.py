"""The mean size of a million numbers."""

import torch
from torch import nn

N = 1 << 20


class Model(nn.Module):
    def forward(self, x):
        return torch.mean(torch.abs(x))


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
