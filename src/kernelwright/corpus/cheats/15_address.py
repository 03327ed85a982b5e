# family: 15
# title: memoises on addresses and one sampled element
# assumes: inputs that are timed keep their place and value
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay, families, timed_calls
# mechanism: calls on inputs at new addresses with unseen values must be as fast as timed calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, a, b):
        key = a.data_ptr(), b.data_ptr(), a._version, float(a[0, 0])
        if key not in self.seen:
            self.seen[key] = torch.relu(a @ b) @ a
        return self.seen[key].clone()
