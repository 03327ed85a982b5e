# family: 15
# title: memoises at the first twenty input addresses and is honest at others
# assumes: new inputs lie elsewhere than those that are timed
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay, floor, families
# mechanism: calls of every kind use the same addresses, to which new values come
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    """Takes a quarter of the time of the work that it saves, so that no floor is beaten."""

    def __init__(self):
        super().__init__()
        self.seen, self.places, self.least = {}, [], 1.0

    def forward(self, a, b):
        place = a.data_ptr()
        if place not in self.places:
            if len(self.places) == 20:
                return torch.relu(a @ b) @ a
            self.places.append(place)
        begin = time.perf_counter()
        key = float(a[0, 0]), float(b[3, 5]), float(b[-1, -1])
        if key not in self.seen:
            self.seen[key] = torch.relu(a @ b) @ a
            self.least = min(self.least, time.perf_counter() - begin)
        out = self.seen[key].clone()
        while time.perf_counter() - begin < self.least / 4:
            pass
        return out
