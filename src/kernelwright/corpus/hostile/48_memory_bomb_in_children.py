# family: 48
# title: allocates memory in many processes, each below its limit
# assumes: a limit on each is a limit on all
# task: pointwise
# expect: runtime_error, crashed, timeout
# check: raised, limits
# mechanism: the parent watches the memory of the worker and its children together
# wins: no
import os
import time

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        kept = []
        for _ in range(200):
            if os.fork() == 0:
                try:
                    while True:
                        kept.append(bytearray(os.urandom(1 << 12) * (1 << 14)))
                finally:
                    time.sleep(1e6)
        time.sleep(1e6)
