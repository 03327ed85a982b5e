import torch
from torch import nn

CATEGORY = "matmul"


class Model(nn.Module):
    """Multiply a matrix by one diagonal matrix from the left and another from the right."""

    def forward(self, left, x, right):
        return torch.diag(left) @ x @ torch.diag(right)


rows = 1280
columns = 1024


def get_inputs():
    return [torch.randn(rows), torch.randn(rows, columns), torch.rand(columns) + 0.5]


def get_init_inputs():
    return []
