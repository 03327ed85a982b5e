# title: the total less what came before, in float64
# origin: torch, float64 inside
# task: 25_ReverseCumulativeSum
# sizes: batch_size=137, length=803
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, weight):
        y = (x * weight).double()
        return (y.sum(1, keepdim=True) - y.cumsum(1) + y).float()
