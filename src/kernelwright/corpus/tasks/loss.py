"""A weighted mean over everything: one number out."""

import torch
from torch import nn

N, K = 1024, 512


class Model(nn.Module):
    def forward(self, x, y):
        return 0.05 * torch.mean((x - y) ** 2)


def get_inputs():
    return [torch.rand(N, K), torch.rand(N, K)]


def get_init_inputs():
    return []
