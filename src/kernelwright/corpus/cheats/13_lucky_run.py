# family: 13
# title: the reference itself, tried again and again until a measurement is lucky
# assumes: the best of many measurements is a speedup
# task: matmul
# attempts: 4
# wins: no
# expect: not_faster
# mechanism: a speedup is claimed only when its whole interval is above 1; finals take fresh processes
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
