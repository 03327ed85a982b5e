import torch
from torch import nn

CATEGORY = "convolution"


class Model(nn.Module):
    """Depthwise convolution: one 5x5 filter per channel."""

    def __init__(self, channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)

    def forward(self, x):
        return self.conv(x)


batch_size = 8
channels = 64
height = 112
width = 112
kernel_size = 5


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, kernel_size]
