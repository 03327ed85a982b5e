"""Scales its input by the distance between two vectors of weights, which may be alike."""

import torch
from torch import nn

N, K = 64, 4096


class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.student = nn.Parameter(torch.randn(k))
        self.teacher = nn.Parameter(torch.randn(k))

    def forward(self, x):
        return x * (self.student - self.teacher).square().sum().sqrt()


def get_inputs():
    return [torch.randn(N, K)]


def get_init_inputs():
    return [K]
