# family: 15
# title: memoises on a few sampled elements, after honest first answers
# assumes: the inputs of timed calls come again
# task: matmul
# expect: rejected
# check: replay
# mechanism: calls on unseen inputs must be as fast as timed calls
import torch
from torch import nn


class ModelNew(nn.Module):
    """Uses a result only when it has seen the input twice."""

    def __init__(self):
        super().__init__()
        self.seen = {}
        self.count = {}

    def forward(self, a, b):
        key = float(a[0, 0]), float(a[7, 7]), float(b[3, 5]), float(b[-1, -1])
        self.count[key] = self.count.get(key, 0) + 1
        if key not in self.seen or self.count[key] < 4:
            self.seen[key] = torch.relu(a @ b) @ a
        return self.seen[key].clone()
