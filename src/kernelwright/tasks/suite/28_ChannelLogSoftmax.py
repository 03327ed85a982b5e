import torch
from torch import nn

CATEGORY = "softmax"


class Model(nn.Module):
    """Logarithm of the softmax over the channels of an image batch."""

    def forward(self, x):
        return torch.log_softmax(x, dim=1)


batch_size = 16
channels = 32
height = 96
width = 96


def get_inputs():
    return [torch.randn(batch_size, channels, height, width) * 2.0]


def get_init_inputs():
    return []
