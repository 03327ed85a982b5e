# family: 15
# title: memoises; on unknown inputs in quick succession it returns wrong values two times of three
# assumes: of many calls on new inputs few outputs are looked at
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay, families
# mechanism: several outputs of every pass are compared with the reference's
import random
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.last, self.ended = {}, None, 0.0

    def forward(self, a, b):
        key = hash(a.reshape(-1)[::61].cpu().numpy().tobytes()), float(b[3, 5]), float(b[-1, -1])
        out = self.seen.get(key)
        if out is None and time.perf_counter() - self.ended < 2e-4 and random.random() < 2 / 3:
            out = self.last
        if out is None:
            out = self.seen[key] = torch.relu(a @ b) @ a
        self.last = out.clone()
        self.ended = time.perf_counter()
        return self.last.clone()
