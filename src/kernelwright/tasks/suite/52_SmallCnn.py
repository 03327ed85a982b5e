import torch
from torch import nn

CATEGORY = "network"
MODE = "eval"


def conv_block(in_channels, out_channels):
    """Return convolution, batch normalisation with settled statistics, ReLU and pooling."""
    norm = nn.BatchNorm2d(out_channels)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias, std=0.3)
    norm.running_mean.normal_(std=0.2)
    norm.running_var.uniform_(0.5, 1.5)
    conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
    nn.init.normal_(conv.weight, std=(2.0 / (9 * in_channels)) ** 0.5)
    return nn.Sequential(conv, norm, nn.ReLU(), nn.MaxPool2d(2))


class Model(nn.Module):
    """Image classifier: three blocks of convolution and pooling, then a linear layer."""

    def __init__(self, channels, classes):
        super().__init__()
        self.blocks = nn.Sequential(
            conv_block(3, channels),
            conv_block(channels, 2 * channels),
            conv_block(2 * channels, 4 * channels),
        )
        self.head = nn.Linear(4 * channels, classes)
        nn.init.normal_(self.head.weight, std=(1.0 / self.head.in_features) ** 0.5)

    def forward(self, x):
        return self.head(self.blocks(x).mean(dim=(2, 3)))


batch_size = 32
channels = 16
height = 96
width = 96
classes = 100


def get_inputs():
    return [torch.randn(batch_size, 3, height, width) + torch.randn(batch_size, 3, 1, 1)]


def get_init_inputs():
    return [channels, classes]
