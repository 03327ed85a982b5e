import torch
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Convolution of volumes, division, maximum pooling, sum over the channels."""

    def __init__(self, in_channels, out_channels, divisor):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size=3, padding=1)
        self.pool = nn.MaxPool3d(2)
        self.divisor = divisor

    def forward(self, x):
        return self.pool(self.conv(x) / self.divisor).sum(dim=1)


batch_size = 8
in_channels = 4
out_channels = 16
depth = 16
height = 48
width = 48
divisor = 2.0


def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, divisor]
