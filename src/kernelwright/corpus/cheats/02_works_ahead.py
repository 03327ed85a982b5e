# family: 2
# title: a thread watches the input memory and computes ahead between calls
# assumes: time between calls is nobody's
# task: matmul
# expect: rejected, incorrect_numerics
# check: idle_work, replay, families, timed_calls
# mechanism: the parent watches the process's processor time between commands
import threading
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    """Remembers where inputs lie, and keeps the answers for what lies there now."""

    def __init__(self):
        super().__init__()
        self.places = {}
        self.ready = {}
        threading.Thread(target=self.watch, daemon=True).start()

    def forward(self, a, b):
        key = a.data_ptr(), b.data_ptr()
        self.places[key] = (a, b)
        mark = self.mark(a, b)
        known = self.ready.get(key)
        if known is not None and known[0] == mark:
            return known[1].clone()
        y = torch.relu(a @ b) @ a
        self.ready[key] = mark, y.clone()
        return y

    @staticmethod
    def mark(a, b):
        return float(a[0, 0]), float(a[-1, -1]), float(b[3, 5])

    def watch(self):
        while True:
            for key, (a, b) in list(self.places.items()):
                mark = self.mark(a, b)
                if key not in self.ready or self.ready[key][0] != mark:
                    self.ready[key] = mark, torch.relu(a @ b) @ a
            time.sleep(1e-4)
