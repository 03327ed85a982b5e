# family: 2
# title: a thread computes only the last call of a burst, after the burst
# assumes: by the time somebody looks the work is done
# task: matmul
# expect: rejected, incorrect_numerics, aliased_output
# check: timed_calls, replay, idle_work, storage, families, weights
# mechanism: all outputs of a pass are kept and any may be compared; outputs are read at once
import _thread
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.box = None
        self.n = 0
        _thread.start_new_thread(self.work, ())

    def forward(self, a, b):
        y = torch.empty_like(a)
        self.n += 1
        self.box = (a, b, y)
        while self.n <= 12 and self.box is not None:
            time.sleep(1e-5)
        return y

    def work(self):
        seen = 0
        while True:
            time.sleep(2e-5)
            if self.box is None or self.n != seen:
                seen = self.n
                continue
            a, b, y = self.box
            torch.mm(torch.relu(a @ b), a, out=y)
            if self.box is not None and self.box[2] is y:
                self.box = None
