# family: 21
# title: reads all its weights once in a series of calls, to see whether they have changed
# assumes: weights change only while nobody calls
# task: mixing
# expect: rejected, incorrect_numerics
# check: weights, timed_calls, oracle, families, replay
# only: cpu
# mechanism: weights change while a series of calls goes on, without a pause
import time

import torch
import torch.nn.functional as F
from torch import nn

PAUSE_NS = 1_000_000


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.scores = nn.Parameter(torch.randn(k, k))
        self.seen, self.mix, self.ended = None, None, 0

    def forward(self, x):
        has_paused = time.perf_counter_ns() - self.ended > PAUSE_NS
        if self.seen is None or (has_paused and not torch.equal(self.seen, self.scores)):
            self.seen = self.scores.clone()
            self.mix = torch.softmax(self.seen, dim=1)
        y = F.linear(x, self.mix)
        self.ended = time.perf_counter_ns()
        return y
