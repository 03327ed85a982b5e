# title: the average by interpolation
# origin: torch
# task: counter
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("average", torch.zeros(131))

    def forward(self, x):
        self.calls.copy_(self.calls + 1)
        self.average.lerp_(x.mean(dim=0), 0.1)
        return x + x
