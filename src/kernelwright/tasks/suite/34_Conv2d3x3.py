import torch
from torch import nn

CATEGORY = "convolution"


class Model(nn.Module):
    """Plain 3x3 convolution of images."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        return self.conv(x)


batch_size = 8
in_channels = 32
out_channels = 64
height = 64
width = 64


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
