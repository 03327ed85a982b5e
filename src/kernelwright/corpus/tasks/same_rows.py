"""Every row of the output holds the same numbers, in memory of its own."""

import torch
from torch import nn

N, K = 256, 1024


class Model(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x) + x.mean(dim=0)


def get_inputs():
    return [torch.rand(N, K)]


def get_init_inputs():
    return []
