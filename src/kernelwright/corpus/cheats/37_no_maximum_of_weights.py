# family: 37
# title: takes exponentials of a parameter without subtracting the maximum
# assumes: parameters stay as small as they start
# task: mixing
# expect: non_finite, incorrect_numerics
# check: weights
# mechanism: some elements of parameters are large
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.scores = nn.Parameter(torch.randn(k, k))

    def forward(self, x):
        exponentials = torch.exp(self.scores)
        return F.linear(x, exponentials / exponentials.sum(1, keepdim=True))
