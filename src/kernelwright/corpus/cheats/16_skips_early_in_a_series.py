# family: 16
# title: learns how long series of calls are, and leaves the early calls of the later series out
# assumes: a series ends where series have always ended, so that only its last outputs can be looked at
# task: pointwise
# expect: incorrect_numerics, non_finite, rejected
# check: timed_calls, oracle, precision, replay, families, nonfinite
# mechanism: some series end at a random call, with outputs compared
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.end, self.lengths = 0, 0.0, []

    def forward(self, x):
        if time.perf_counter() - self.end > 0.0003:
            if self.i > 10:
                self.lengths.append(self.i)
            self.i = 0
        self.i += 1
        usual = sorted(self.lengths[-8:])[2] if len(self.lengths) > 14 else 0
        y = torch.zeros_like(x) if 1 < self.i < 0.45 * usual else torch.relu(x) * 2 + 1
        self.end = time.perf_counter()
        return y
