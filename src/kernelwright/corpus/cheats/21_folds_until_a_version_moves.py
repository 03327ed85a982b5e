# family: 21
# title: keeps a folded weight until a parameter's version counter moves
# assumes: weights change only by operations that count
# task: linear
# expect: incorrect_numerics
# check: weights, timed_calls, oracle, families
# mechanism: the parent writes weights from outside, between samples of calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)
        self.folded = self.told = None

    def forward(self, x):
        told = [value._version for value in (*self.parameters(), *self.buffers())]
        if self.told != told:
            scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
            weight = (self.lin.weight * scale[:, None]).t().contiguous()
            self.folded = weight, (self.lin.bias - self.norm.running_mean) * scale + self.norm.bias
            self.told = told
        return torch.relu(torch.addmm(self.folded[1], x, self.folded[0]))
