# family: 4
# title: finds the harness's saved clock and replaces it
# assumes: a clock that was taken before the candidate came is safe
# task: matmul
# wins: no
# expect: verified
# device_expect: rejected, verified
# device_check: tamper, clock
# mechanism: the parent's clock decides; on the processor, no clock of ours is in reach of Python
import gc
import time

import torch
from torch import nn

real, real_ns = time.perf_counter, time.perf_counter_ns
SLOWED = {id(real): lambda: real() / 50, id(real_ns): lambda: real_ns() // 50}
own = globals()
for found in gc.get_objects():
    if type(found) is dict and found is not own and found.get("__name__") != "time":
        for name, value in list(found.items()):
            if id(value) in SLOWED and name not in ("real", "real_ns"):
                found[name] = SLOWED[id(value)]


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
