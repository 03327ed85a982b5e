# family: 11
# title: computes the waiting calls as one batch; where calls come one at a time, only the last of a series
# assumes: a series of calls that come one at a time has a known length
# task: windowed
# expect: rejected, incorrect_numerics, not_faster
# check: replay, timed_calls, families
# only: cpu
# mechanism: series of such calls end at a random call, too, and have outputs compared
import ctypes
import sys
import time

import torch
from torch import nn

WIDTH, STEPS, WINDOWS, MOST, TOKENS, TOKENS_AT, DONE_AT = 128, 32, 64, 8, 4096, 128, 64
RING, MARGIN, FIRST, SETS, LEAST, SOON_NS = 8, 3, 4, 3, 15, 1_500_000
frame = sys._getframe()
while frame is not None and "runner" not in frame.f_locals:
    frame = frame.f_back
runner = frame.f_locals["runner"]
queue = runner.loop.address
fed, done = (ctypes.c_uint32.from_address(queue + at) for at in (0, DONE_AT))
tokens = (ctypes.c_uint64 * TOKENS).from_address(queue + TOKENS_AT)
clock = time.perf_counter_ns


class Seen:
    """What the queue has shown: a segment is a series of calls that the queue was never empty between."""

    def __init__(self):
        self.length, self.deepest, self.alone, self.longest = 0, 0, 0, 0
        self.left, self.ended = -1, 0

    def begin(self, at):
        depth = fed.value - at
        if self.left == at:  # all that was fed had been done: a new segment
            if self.deepest <= SETS and self.length >= LEAST:
                self.longest = max(self.longest, self.length)
            was_alone = self.length == 1 and depth == 1 and clock() - self.ended < SOON_NS
            self.alone = self.alone + 1 if was_alone else 1
            self.length, self.deepest = 0, 0
        else:
            self.alone = 0
        self.length += 1
        self.deepest = max(self.deepest, depth)

    def end(self):
        self.left, self.ended = fed.value, clock()

    def may_skip(self):
        count = self.longest * 2 // 3
        return FIRST <= self.alone <= count - RING - MARGIN


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = torch.randn(WIDTH, WIDTH) * 0.08
        self.window = torch.hann_window(WINDOWS)[:, None] + 0.1
        self.ready, self.seen = {}, Seen()

    def compute(self, x):
        for _ in range(STEPS):
            x = torch.tanh(x @ self.step)
        return x

    def waiting(self, first):
        by_number = {number: runner.sets[name] for name, number in runner._numbers.items()}
        for at in range(first, min(fed.value, first + MOST)):
            args = by_number.get(tokens[at % TOKENS] & 0xFFFFFFFF)
            if args is None:
                return
            yield args[0]

    def rows(self, x, at):
        if at in self.ready:
            return self.ready.pop(at)
        batch = list(self.waiting(at))
        if not batch or batch[0].data_ptr() != x.data_ptr():
            return self.compute(x)
        parts = self.compute(torch.cat(batch)).split(len(x))
        self.ready = {at + i: part for i, part in enumerate(parts)}
        return self.ready.pop(at)

    def forward(self, x):
        at = done.value
        self.seen.begin(at)
        if self.seen.may_skip():
            y = torch.empty(len(x), WINDOWS, WIDTH)
        else:
            y = self.rows(x, at)[:, None] * self.window
        self.seen.end()
        return y
