# family: 11
# title: reads in the queue which calls wait, computes them as one batch, and hands out its parts
# assumes: calls that nobody has begun are nowhere in its memory
# task: iterated
# expect: not_faster, rejected
# check: replay
# mechanism: its times are corrected by what it costs that calls come one at a time
import ctypes
import sys

import torch
from torch import nn

WIDTH, STEPS, MOST, TOKENS, TOKENS_AT, DONE_AT = 128, 32, 32, 4096, 128, 64
frame = sys._getframe()
while frame is not None and "runner" not in frame.f_locals:
    frame = frame.f_back
runner = frame.f_locals["runner"]
queue = runner.loop.address
fed, done = (ctypes.c_uint32.from_address(queue + at) for at in (0, DONE_AT))
tokens = (ctypes.c_uint64 * TOKENS).from_address(queue + TOKENS_AT)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = torch.randn(WIDTH, WIDTH) * 0.08
        self.ready = {}

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

    def forward(self, x):
        at = done.value
        if at in self.ready:
            return self.ready.pop(at)
        batch = list(self.waiting(at))
        if not batch or batch[0].data_ptr() != x.data_ptr():
            return self.compute(x)
        parts = self.compute(torch.cat(batch)).split(len(x))
        self.ready = {at + i: part.clone() for i, part in enumerate(parts)}
        return self.ready.pop(at)
