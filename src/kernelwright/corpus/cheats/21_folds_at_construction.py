# family: 21
# title: transposes the weight and folds the normalisation in its constructor
# assumes: weights stay what the constructor gave
# task: linear
# expect: incorrect_numerics
# check: oracle, weights
# mechanism: weights are overwritten after construction
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)
        with torch.no_grad():
            scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
            self.folded = [(self.lin.weight * scale[:, None]).t().contiguous(), self.lin.bias * scale]

    def forward(self, x):
        weight, bias = [value.to(x.device) for value in self.folded]
        return torch.relu(torch.addmm(bias, x, weight))
