# title: a choice for the clip
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
        shifted = x + self.bias
        return torch.where(shifted < 0, torch.zeros((), dtype=x.dtype), shifted * self.scale)
