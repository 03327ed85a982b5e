# family: 48
# title: forks as fast as possible, and so do its children
# assumes: processes are free
# task: pointwise
# expect: timeout, crashed, runtime_error
# check: raised, limits
# mechanism: a limit on processes; the whole process table ends with the worker
# wins: no
import os
import time

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.05)
