import torch
from torch import nn

CATEGORY = "softmax"


class Model(nn.Module):
    """Softmax over the last axis."""

    def forward(self, x):
        return torch.softmax(x, dim=-1)


batch_size = 8192
features = 1024


def get_inputs():
    return [torch.randn(batch_size, features) * 4.0]


def get_init_inputs():
    return []
