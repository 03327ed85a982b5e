"""A product with a bias in bfloat16."""

import torch
from torch import nn

N, K = 128, 256


class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lin = nn.Linear(k, k).bfloat16()

    def forward(self, x):
        return self.lin(x)


def get_inputs():
    return [torch.randn(N, K).bfloat16()]


def get_init_inputs():
    return [K]
