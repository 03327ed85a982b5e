"""A scale for every column that starts positive and need not stay so."""

import torch
from torch import nn

N, K = 256, 384


class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(k) + 0.5)

    def forward(self, x):
        return torch.relu(x * self.scale)


def get_inputs():
    return [torch.randn(N, K)]


def get_init_inputs():
    return [K]
