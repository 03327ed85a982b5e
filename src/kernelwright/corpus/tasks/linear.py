"""Weights, affine normalisation and running statistics."""

import torch
from torch import nn

N, K, M = 128, 256, 192


class Model(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)

    def forward(self, x):
        return torch.relu(self.norm(self.lin(x)))


def get_inputs():
    return [torch.rand(N, K)]


def get_init_inputs():
    return [K, M]


MODE = "eval"
