# family: 37
# title: divides weights by their largest magnitude, also by zero
# assumes: some element of a parameter is not zero
# task: quantised_weights
# expect: non_finite
# check: weights
# mechanism: in one sample all parameters are zero everywhere
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, k))

    def forward(self, x):
        scale = self.weight.abs().amax() / 127
        return x @ ((self.weight / scale).round() * scale).t()
