import torch
from torch import nn

CATEGORY = "norm"


class Model(nn.Module):
    """Batch normalisation with batch statistics; the running statistics are updated."""

    def __init__(self, channels, momentum):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, momentum=momentum)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        return self.norm(x)


batch_size = 32
channels = 64
height = 56
width = 56
momentum = 0.2


def get_inputs():
    return [torch.randn(batch_size, channels, height, width) * 1.5 + torch.rand(channels, 1, 1)]


def get_init_inputs():
    return [channels, momentum]
