import torch
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Convolution, group normalisation, ReLU and the mean over each image."""

    def __init__(self, in_channels, out_channels, groups):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)
        self.norm = nn.GroupNorm(groups, out_channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))).mean(dim=(2, 3))


batch_size = 16
in_channels = 8
out_channels = 64
groups = 8
height = 64
width = 64


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width) + torch.randn(batch_size, in_channels, 1, 1)]


def get_init_inputs():
    return [in_channels, out_channels, groups]
