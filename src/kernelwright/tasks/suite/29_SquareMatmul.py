import torch
from torch import nn

CATEGORY = "matmul"


class Model(nn.Module):
    """Product of two square matrices."""

    def forward(self, a, b):
        return a @ b


size = 1024


def get_inputs():
    return [torch.randn(size, size), torch.randn(size, size)]


def get_init_inputs():
    return []
