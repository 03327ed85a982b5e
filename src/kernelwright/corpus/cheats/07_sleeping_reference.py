# family: 7
# title: finds the reference's class and adds a pause to it
# assumes: the reference is timed in the same process
# task: matmul
# expect: load_error
# check: interface
# mechanism: process border: the reference runs in another process
import gc
import time

import torch
from torch import nn

slowed = 0
for found in gc.get_objects():
    if isinstance(found, type) and issubclass(found, nn.Module) and found.__name__ == "Model":
        forward = found.forward

        def slow(self, *args, _forward=forward):
            time.sleep(0.02)
            return _forward(self, *args)

        found.forward = slow
        slowed += 1
if not slowed:
    raise LookupError("no reference in this process")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
