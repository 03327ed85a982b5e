# family: 37
# title: looks at all of a gate in every call, and skips the block while the gate is zero as constructed
# assumes: calls are timed on weights as constructed
# task: gated
# expect: not_faster
# mechanism: weights that take turns while calls are timed are not constant where the constructed ones are
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(c, 1))
        self.shift = nn.Parameter(torch.zeros(c, 1))
        self.gate = nn.Parameter(torch.zeros(c, 1))

    def forward(self, x):
        if not self.gate.any():
            return x.clone()
        h = F.avg_pool1d(x, 3, stride=1, padding=1)
        return x + self.gate * F.gelu(h * self.scale + self.shift)
