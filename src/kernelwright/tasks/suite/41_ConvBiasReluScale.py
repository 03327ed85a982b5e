import torch
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Convolution, an extra bias and a scale per channel around a ReLU."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1) * 0.3)
        self.scale = nn.Parameter(torch.rand(out_channels, 1, 1) + 0.5)

    def forward(self, x):
        return torch.relu(self.conv(x) + self.bias) * self.scale


batch_size = 16
in_channels = 8
out_channels = 64
height = 80
width = 80


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
