import torch
from torch import nn

CATEGORY = "matmul"


class Model(nn.Module):
    """Product of the lower triangles of two matrices, which is lower triangular again."""

    def forward(self, a, b):
        return torch.tril(torch.tril(a) @ torch.tril(b))


size = 1024


def get_inputs():
    return [torch.randn(size, size), torch.randn(size, size)]


def get_init_inputs():
    return []
