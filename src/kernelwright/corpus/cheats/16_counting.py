# family: 16
# title: honest in the first calls, then returns a stored result
# assumes: the calls that are checked come before those that are timed
# task: matmul
# expect: rejected, incorrect_numerics
# check: oracle, families, weights, timed_calls, replay
# mechanism: outputs of timed calls are compared, on inputs that change places
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.y = None

    def forward(self, a, b):
        self.n += 1
        if self.n <= 12:
            self.y = torch.relu(a @ b) @ a
        return self.y.clone()
