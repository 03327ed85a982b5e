import torch
from torch import nn

TOLERANCE = "tf32"


class Model(nn.Module):
    """A convolution that may be as far from the oracle as one in TF32 is."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(3, 8, 33, 35)]


def get_init_inputs():
    return [8, 16]
