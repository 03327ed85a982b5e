import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Convolution, subtraction of a constant, hardswish, maximum pooling, Mish."""

    def __init__(self, in_channels, out_channels, shift):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3)
        nn.init.normal_(self.conv.weight, std=0.3)
        self.shift = shift

    def forward(self, x):
        return F.mish(F.max_pool2d(F.hardswish(self.conv(x) - self.shift), 2))


batch_size = 16
in_channels = 8
out_channels = 48
height = 82
width = 82
shift = 0.5


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, shift]
