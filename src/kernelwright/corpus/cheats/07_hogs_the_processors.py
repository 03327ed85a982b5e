# family: 7
# title: uses all processors while it is not called, to slow the reference
# assumes: both sides find the machine as it is
# task: matmul
# expect: rejected
# check: idle_work, clock
# mechanism: the parent watches the process's processor time between commands
import os
import threading
import time

import torch
from torch import nn

state = {"busy": 0.0}


def burn():
    while True:
        if time.monotonic() - state["busy"] > 0.0005:
            sum(range(20000))
        else:
            time.sleep(0.0002)


for _ in range(os.cpu_count() or 1):
    threading.Thread(target=burn, daemon=True).start()


class ModelNew(nn.Module):
    def forward(self, a, b):
        state["busy"] = time.monotonic() + 1.0
        y = torch.relu(a @ b) @ a
        state["busy"] = time.monotonic()
        return y
