"""The mean of each class; a class without members has the mean zero."""

import torch
from torch import nn

N, K, CLASSES = 512, 32, 16


class Model(nn.Module):
    def forward(self, x, labels):
        sums = x.new_zeros(CLASSES, K).index_add_(0, labels, x)
        counts = x.new_zeros(CLASSES).index_add_(0, labels, x.new_ones(N))
        return sums / counts.clamp(min=1)[:, None]


def get_inputs():
    return [torch.randn(N, K), torch.randint(CLASSES, (N,))]


def get_init_inputs():
    return []
