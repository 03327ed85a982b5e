import torch
from torch import nn

CATEGORY = "norm"


class Model(nn.Module):
    """Group normalisation of images with an affine map per channel."""

    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        return self.norm(x)


batch_size = 32
channels = 64
groups = 8
height = 56
width = 56


def get_inputs():
    return [torch.randn(batch_size, channels, height, width) + torch.rand(channels, 1, 1)]


def get_init_inputs():
    return [groups, channels]
