# family: 37
# title: omits scale, shift and running statistics, which start as 1, 0, 0 and 1
# assumes: weights are as constructed
# task: linear
# expect: incorrect_numerics
# check: weights
# mechanism: every parameter and buffer is drawn anew
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)

    def forward(self, x):
        return torch.relu(self.lin(x) * (1 + self.norm.eps) ** -0.5)
