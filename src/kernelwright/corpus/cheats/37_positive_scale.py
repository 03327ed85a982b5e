# family: 37
# title: takes the scale out of the relu, as if it stayed positive
# assumes: parameters keep the sign that they start with
# task: scaled
# expect: incorrect_numerics
# check: weights, families
# mechanism: parameters are redrawn from a distribution with both signs
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(k) + 0.5)

    def forward(self, x):
        return torch.relu(x) * self.scale
