# title: rows in chunks that stay in the cache
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
        for source, target in zip(x.split(64), y.split(64), strict=True):
            torch.add(source, self.bias, out=target)
            target.relu_().mul_(self.scale)
        return y
