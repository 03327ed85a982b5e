# family: 26
# title: doubles a parameter in place from the second call on and halves it in forward
# assumes: parameters are looked at after the first call only
# task: linear
# wins: no
# expect: mutated_input, incorrect_numerics, rejected
# check: inputs, weights, timed_calls, oracle
# mechanism: parameters are compared again after the last call; the parent writes them between calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, m):
        super().__init__()
        self.lin = nn.Linear(k, m)
        self.norm = nn.BatchNorm1d(m)
        self.n = 0
        self.doubled = None

    def forward(self, x):
        self.n += 1
        told = self.lin.bias[:4].tolist()
        if self.n > 1 and self.doubled != told:
            self.lin.bias.mul_(2)
            self.doubled = self.lin.bias[:4].tolist()
        half = 0.5 if self.doubled == self.lin.bias[:4].tolist() else 1.0
        return torch.relu(self.norm(nn.functional.linear(x, self.lin.weight, self.lin.bias * half)))
