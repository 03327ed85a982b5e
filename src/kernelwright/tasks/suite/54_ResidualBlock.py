import torch
from torch import nn

CATEGORY = "network"
MODE = "eval"


def settled_norm(channels):
    """Return batch normalisation whose statistics are as after training, not those at construction."""
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias, std=0.3)
    norm.running_mean.normal_(std=0.2)
    norm.running_var.uniform_(0.5, 1.5)
    return norm


class Model(nn.Module):
    """Residual block with a strided shortcut: two convolutions, three normalisations, two ReLUs."""

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = settled_norm(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = settled_norm(out_channels)
        self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
        self.norm3 = settled_norm(out_channels)
        for conv in (self.conv1, self.conv2, self.shortcut):
            nn.init.kaiming_normal_(conv.weight)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y)) + self.norm3(self.shortcut(x))
        return torch.relu(y)


batch_size = 16
in_channels = 32
out_channels = 48
height = 64
width = 64
stride = 2


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, stride]
