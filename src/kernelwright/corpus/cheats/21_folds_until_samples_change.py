# family: 21
# title: keeps a folded weight until some sampled elements of the weights change
# assumes: weights change all together
# task: linear
# expect: incorrect_numerics
# check: weights, timed_calls, oracle, families, replay
# mechanism: at times one element of the weights changes between samples of calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)
        self.folded = self.told = None

    def forward(self, x):
        told = [value.view(-1)[:16].tolist() for value in (*self.parameters(), *self.buffers())]
        if self.told != told:
            scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
            weight = (self.lin.weight * scale[:, None]).t().contiguous()
            self.folded = weight, (self.lin.bias - self.norm.running_mean) * scale + self.norm.bias
            self.told = told
        return torch.relu(torch.addmm(self.folded[1], x, self.folded[0]))
