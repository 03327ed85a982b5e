# family: 21
# title: keeps until there is a pause what it made of one large parameter beside many small ones
# assumes: any parameter is as likely to change as another
# task: many_shifts
# expect: rejected, incorrect_numerics
# check: weights, timed_calls, oracle, families, replay
# only: cpu
# mechanism: which parameter changes is drawn by size, too
import time

import torch
import torch.nn.functional as F
from torch import nn

PAUSE_NS = 150_000


class Kept:
    table, ended = None, 0


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.shifts = nn.ParameterList([nn.Parameter(torch.randn(256) * 0.1) for _ in range(32)])
        self.head = nn.Parameter(torch.randn(2048, 256))
        self.kept = Kept()

    def forward(self, x):
        kept = self.kept
        if kept.table is None or time.perf_counter_ns() - kept.ended > PAUSE_NS:
            kept.table = F.normalize(self.head, dim=1)
        for shift in self.shifts:
            x = x + shift
        y = F.linear(x, kept.table)
        kept.ended = time.perf_counter_ns()
        return y
