# family: 16
# title: reads its callers' frames for the number of calls and computes only where it is looked at
# assumes: whoever calls it counts the calls in a frame, and only the last output of a sample is compared
# task: matmul
# expect: rejected, incorrect_numerics, aliased_output
# check: families, oracle, weights, timed_calls, replay, storage
# mechanism: calls come from a loop in C that knows no count; outputs are chosen afterwards
import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    """Without a count in any frame, it computes every second call."""

    def __init__(self):
        super().__init__()
        self.n = 0
        self.before = None

    def is_last(self):
        frame = sys._getframe(2)
        while frame is not None:
            here = frame.f_locals
            calls = here.get("message", {}).get("calls") if isinstance(here.get("message"), dict) else None
            if calls is not None and "i" in here:
                return here["i"] == calls - 1
            frame = frame.f_back
        return self.n % 2 == 0

    def forward(self, a, b):
        self.n += 1
        if self.n > 30 and not self.is_last():
            return torch.empty_like(a)
        return torch.relu(a @ b) @ a
