# title: works in place in its own fresh tensor
# origin: torch
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        return (x + self.bias).clamp_min_(0.0).mul_(self.scale)
