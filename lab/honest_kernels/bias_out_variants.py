# title: out= variants into fresh memory
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
        y = torch.empty_like(x)
        torch.add(x, self.bias, out=y)
        torch.clamp(y, min=0.0, out=y)
        return torch.mul(y, self.scale, out=y)
