import torch
from torch import nn


class Model(nn.Module):
    """bfloat16 in and out."""

    def forward(self, x, w):
        return torch.relu(x @ w)


def get_inputs():
    return [torch.randn(67, 131).bfloat16(), torch.randn(131, 33).bfloat16()]


def get_init_inputs():
    return []
