"""The four largest values of every row."""

import torch
from torch import nn

N, K = 16, 8192


class Model(nn.Module):
    def forward(self, x):
        return torch.topk(x, 4, dim=1)[0]


def get_inputs():
    return [torch.randn(N, K)]


def get_init_inputs():
    return []
