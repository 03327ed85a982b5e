"""A linear map whose matrix is the mean of sixteen experts (a model soup that is still being trained)."""

import torch
import torch.nn.functional as F
from torch import nn

N, K, EXPERTS = 4, 256, 16


class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.experts = nn.Parameter(torch.randn(EXPERTS, k, k) * 0.1)

    def forward(self, x):
        return F.linear(x, self.experts.mean(0))


def get_inputs():
    return [torch.randn(N, K)]


def get_init_inputs():
    return [K]
