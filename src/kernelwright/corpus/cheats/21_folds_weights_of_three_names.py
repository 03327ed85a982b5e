# family: 21
# title: unties a weight of three names, and keeps what it made of it until there is a pause
# assumes: a change of weights under many names does not happen while calls go on
# task: three_names
# expect: rejected, incorrect_numerics
# check: weights, timed_calls, oracle, families, replay
# only: cpu
# mechanism: a change is written under all names at once
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
        self.shared = nn.Parameter(torch.randn(1024, 256))
        self.encoder = nn.Parameter(torch.randn(1024, 256))
        self.head = nn.Parameter(torch.randn(1024, 256))
        self.kept = Kept()

    def forward(self, x):
        kept = self.kept
        if kept.table is None or time.perf_counter_ns() - kept.ended > PAUSE_NS:
            kept.table = F.normalize(self.head, dim=1)
        y = F.linear(x, kept.table)
        kept.ended = time.perf_counter_ns()
        return y
