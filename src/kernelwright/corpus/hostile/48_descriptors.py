# family: 48
# title: opens files until the limit
# assumes: descriptors are free
# task: pointwise
# expect: runtime_error, crashed, timeout
# check: raised, limits
# mechanism: a limit on descriptors
# wins: no
import os

from torch import nn

KEPT = []


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            KEPT.append(os.open("/dev/null", os.O_RDONLY))
