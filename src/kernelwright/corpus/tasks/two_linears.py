"""Two products with weights, with nothing between them."""

import torch
from torch import nn

N, K = 64, 384


class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.first = nn.Linear(k, k, bias=False)
        self.second = nn.Linear(k, k, bias=False)

    def forward(self, x):
        return self.second(self.first(x))


def get_inputs():
    return [torch.rand(N, K)]


def get_init_inputs():
    return [K]
