# family: 21
# title: keeps what it made of tied weights until there is a pause between two calls
# assumes: weights that share their memory do not change while calls go on
# task: tied_mixing
# expect: rejected, incorrect_numerics
# check: weights, timed_calls, oracle, families, replay
# only: cpu
# mechanism: tied weights change together while a series of calls goes on
import time

import torch
import torch.nn.functional as F
from torch import nn

PAUSE_NS = 1_000_000


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.scores = nn.Parameter(torch.randn(k, k))
        self.again = self.scores
        self.mix, self.ended = None, 0

    def forward(self, x):
        if self.mix is None or time.perf_counter_ns() - self.ended > PAUSE_NS:
            self.mix = torch.softmax(self.scores, dim=1)
        y = F.linear(x, self.mix)
        self.ended = time.perf_counter_ns()
        return y
