# family: 48
# title: uses every inherited descriptor
# assumes: nothing was left open
# task: pointwise
# expect: verified, crashed, rejected
# check: raised, timed_calls
# only: cpu
# mechanism: all descriptors except the standard ones and the socket are closed before it runs
# wins: no
# sandbox: limits
import os
import stat

import torch
from torch import nn


def look():
    sockets = 0
    for descriptor in range(3, 4096):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        sockets += stat.S_ISSOCK(mode)
        if stat.S_ISDIR(mode):
            raise RuntimeError(f"HARMED: descriptor {descriptor} is a directory outside")
        if stat.S_ISFIFO(mode):
            raise RuntimeError(f"HARMED: descriptor {descriptor} is somebody's pipe")
    if sockets > 1:
        raise RuntimeError(f"HARMED: {sockets} sockets were left open")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        look()

    def forward(self, x):
        return torch.relu(x) * 2 + 1
