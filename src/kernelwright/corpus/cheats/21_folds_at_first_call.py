# family: 21
# title: folds the normalisation into the weight at the first call and keeps it
# assumes: weights that are there at the first call stay
# task: linear
# expect: incorrect_numerics
# check: weights
# mechanism: weights are exchanged between calls; the policy says that preparing them is paid in every call
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
