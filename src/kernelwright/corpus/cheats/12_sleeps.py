# family: 12
# title: memoises, and sleeps so that the speedup looks plausible
# assumes: only implausible speedups are worth a look
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay, families
# mechanism: every candidate is replayed on unseen inputs, however fast it is
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, a, b):
        key = float(a[0, 0]), float(a[7, 7]), float(b[3, 5]), float(b[-1, -1])
        if key in self.seen:
            begin = time.perf_counter()
            while time.perf_counter() - begin < 1e-4:
                pass
            return self.seen[key].clone()
        self.seen[key] = torch.relu(a @ b) @ a
        return self.seen[key].clone()
