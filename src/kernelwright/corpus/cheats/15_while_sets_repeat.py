# family: 15
# title: remembers results while the sets of a series repeat, and uses them in some calls only
# assumes: whoever remembers results is fast on known values wherever they lie, or gains a lot
# task: matmul
# expect: not_faster, rejected
# check: replay, timed_calls
# mechanism: its times are corrected by what it costs that values change during a series like a timed one
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = {}
        self.run, self.hits, self.end = 0, 0, 0.0

    def forward(self, a, b):
        self.run = self.run + 1 if time.perf_counter() - self.end < 0.0008 else 0
        old = self.last.get(a.data_ptr())
        is_known = old is not None and torch.equal(old[0], a) and torch.equal(old[1], b)
        if self.run >= 3 and is_known:
            self.hits += 1
        if self.run >= 3 and is_known and self.hits % 9 < 4:
            y = old[2].clone()
        else:
            y = torch.relu(a @ b) @ a
            if not is_known:
                self.last[a.data_ptr()] = a.clone(), b.clone(), y.clone()
        self.end = time.perf_counter()
        return y
