# family: 37
# title: leaves out what a batch norm adds to its running variance
# assumes: no channel has a variance near zero
# task: linear
# expect: incorrect_numerics, non_finite
# check: weights, families, precision, oracle
# mechanism: some elements of buffers are tiny
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)

    def forward(self, x):
        norm = self.norm
        scale = norm.weight * torch.rsqrt(norm.running_var)
        y = F.linear(x, self.lin.weight, self.lin.bias)
        return torch.relu((y - norm.running_mean) * scale + norm.bias)
