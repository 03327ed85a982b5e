# family: 16
# title: stops updating its running statistics after sixty calls
# assumes: buffers are compared while outputs are verified, and never again
# task: running
# wins: no
# expect: incorrect_state
# check: state
# mechanism: after the last timed call both sides make the same calls, and their buffers are compared
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.norm = nn.BatchNorm1d(k)
        self.n = 0

    def forward(self, x):
        self.n += 1
        if self.n <= 60:
            return torch.relu(self.norm(x))
        none, eps = None, self.norm.eps
        return torch.relu(
            nn.functional.batch_norm(x, none, none, self.norm.weight, self.norm.bias, True, 0.0, eps)
        )
