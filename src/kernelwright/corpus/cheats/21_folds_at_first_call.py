# family: 21
# title: folds the normalisation into the weight at the first call and keeps the result
# assumes: weights that are there at the first call stay
# task: linear
# expect: incorrect_numerics
# check: weights
# mechanism: weights change between input samples; by policy, every call pays for preparing them
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)
        self.folded = None

    def forward(self, x):
        if self.folded is None:
            scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
            weight = (self.lin.weight * scale[:, None]).t().contiguous()
            self.folded = weight, (self.lin.bias - self.norm.running_mean) * scale + self.norm.bias
        return torch.relu(torch.addmm(self.folded[1], x, self.folded[0]))
