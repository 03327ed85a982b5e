# family: 16
# title: leaves out a step of the work from the fifth call in a row on
# assumes: only timed calls come without a pause, and their inputs need no such step
# task: pointwise
# expect: incorrect_numerics, non_finite
# check: families, timed_calls, precision, oracle, nonfinite
# mechanism: verified calls come in series too, and timed calls also get inputs of other distributions
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.last = 0, 0.0

    def forward(self, x):
        now = time.perf_counter()
        self.n = self.n + 1 if now - self.last < 0.002 else 0
        out = x * 2 + 1 if self.n > 4 else torch.relu(x) * 2 + 1
        self.last = time.perf_counter()
        return out
