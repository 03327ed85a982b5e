import torch
from torch import nn

CATEGORY = "matmul"


class Model(nn.Module):
    """Product of a tall matrix and a small one."""

    def forward(self, a, b):
        return a @ b


rows = 65536
inner = 96
columns = 64


def get_inputs():
    return [torch.randn(rows, inner), torch.randn(inner, columns)]


def get_init_inputs():
    return []
