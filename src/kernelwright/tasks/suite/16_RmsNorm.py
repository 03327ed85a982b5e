import torch
from torch import nn

CATEGORY = "norm"


class Model(nn.Module):
    """Root-mean-square normalisation of the last axis with a learned gain."""

    def __init__(self, features, epsilon):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features) + 0.5)
        self.epsilon = epsilon

    def forward(self, x):
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.epsilon) * self.gain


batch_size = 16
steps = 512
features = 1024
epsilon = 1e-6


def get_inputs():
    return [torch.randn(batch_size, steps, features) * 1.5]


def get_init_inputs():
    return [features, epsilon]
