import torch
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Transposed convolution, softmax over the channels, bias, scale, sigmoid."""

    def __init__(self, in_channels, out_channels, scale):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1)
        nn.init.normal_(self.conv.weight, std=0.6)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.scale = scale

    def forward(self, x):
        return torch.sigmoid((torch.softmax(self.conv(x), dim=1) + self.bias) * self.scale)


batch_size = 16
in_channels = 16
out_channels = 32
height = 48
width = 48
scale = 2.0


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, scale]
