# family: 36
# title: takes the variance from two sums in float32 and does not clamp it
# assumes: no row is far from zero compared with its spread
# task: layernorm
# expect: non_finite, incorrect_numerics
# check: families, precision
# mechanism: rows of one large constant
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.norm = nn.LayerNorm(k)

    def forward(self, x):
        mean = x.mean(dim=1, keepdim=True)
        variance = (x * x).mean(dim=1, keepdim=True) - mean * mean
        return (x - mean) * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
