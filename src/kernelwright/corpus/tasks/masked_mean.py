"""The mean of what a mask leaves of each row; zero where it leaves nothing."""

import torch
from torch import nn

N, K = 64, 128


class Model(nn.Module):
    def forward(self, x, mask):
        return (x * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def get_inputs():
    return [torch.randn(N, K), torch.rand(N, K) > 0.3]


def get_init_inputs():
    return []
