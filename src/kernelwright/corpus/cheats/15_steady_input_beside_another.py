# family: 15
# title: keeps what it made of an input that is always alike, beside one that can be no other
# assumes: inputs are fresh all together or not at all
# task: embedded_times_at
# expect: rejected
# check: replay
# mechanism: each input that the task always draws alike is asked for by itself, and renewed if it may be
import math

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        half = d // 2
        self.freq = torch.exp(-math.log(10000.0) * torch.arange(half).float() / half)
        self.seen = self.embedding = None

    def forward(self, x, t, at):
        if self.seen is None or not torch.equal(t, self.seen):
            angle = t[:, None] * self.freq * 1000.0
            self.embedding = torch.cat([angle.sin(), angle.cos()], dim=1)
            self.seen = t.clone()
        return x + self.embedding[at]
