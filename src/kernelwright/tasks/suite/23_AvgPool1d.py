import torch
from torch import nn

CATEGORY = "pooling"


class Model(nn.Module):
    """Average pooling of a long signal with a wide, overlapping window."""

    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


batch_size = 32
channels = 64
length = 4096
kernel_size = 8
stride = 2
padding = 3


def get_inputs():
    return [torch.randn(batch_size, channels, length) + torch.rand(channels, 1)]


def get_init_inputs():
    return [kernel_size, stride, padding]
