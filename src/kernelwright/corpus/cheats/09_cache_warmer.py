# family: 9
# title: a thread keeps the inputs in the caches between calls
# assumes: caches are as cold for the candidate as for the reference
# task: pointwise
# wins: no
# expect: rejected
# check: idle_work
# mechanism: the parent watches the process's processor time between commands
import threading

import torch
from torch import nn

seen = {}


def keep_warm():
    while True:
        for x in list(seen.values()):
            float(x.sum())


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        threading.Thread(target=keep_warm, daemon=True).start()

    def forward(self, x):
        seen[x.data_ptr()] = x
        return torch.relu(x) * 2 + 1
