# title: a workspace kept by shape, a fresh output each call
# origin: torch, own scratch
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

        self.scratch = {}

    def forward(self, x):
        key = (tuple(x.shape), x.dtype)
        if key not in self.scratch:
            self.scratch[key] = torch.empty_like(x)
        work = self.scratch[key]
        torch.add(x, self.bias, out=work)
        work.relu_()
        return work * self.scale
