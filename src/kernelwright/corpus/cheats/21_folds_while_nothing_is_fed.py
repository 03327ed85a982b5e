# family: 21
# title: keeps what it made of its weights while the count of calls that were fed stands still
# assumes: weights change in pauses, or right before further calls are fed
# task: soup
# expect: rejected, incorrect_numerics
# check: weights, timed_calls, oracle, families, replay
# only: cpu
# mechanism: after every second change no further call is fed until some have begun
import ctypes
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DONE_AT, HANDED_NS = 64, 120_000
frame = sys._getframe()
while frame is not None and "runner" not in frame.f_locals:
    frame = frame.f_back
queue = frame.f_locals["runner"].loop.address
fed, done = (ctypes.c_uint32.from_address(queue + at) for at in (0, DONE_AT))
clock = time.perf_counter_ns


class Kept:
    mean, known, left, ended = None, -1, -1, 0


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.experts = nn.Parameter(torch.randn(16, k, k) * 0.1)
        self.kept = Kept()

    def forward(self, x):
        kept, now = self.kept, fed.value
        if now != kept.known:
            is_handed = kept.left == done.value and clock() - kept.ended < HANDED_NS
            if kept.mean is None or not is_handed:
                kept.mean = self.experts.mean(0)
            kept.known = now
        y = F.linear(x, kept.mean)
        kept.left, kept.ended = fed.value, clock()
        return y
