# family: 13
# title: the reference itself, retried until a measurement is lucky
# assumes: the best of many measurements is a speedup
# task: matmul
# attempts: 4
# wins: no
# expect: not_faster
# mechanism: a speedup counts only with its whole interval above 1; finals use fresh processes
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
