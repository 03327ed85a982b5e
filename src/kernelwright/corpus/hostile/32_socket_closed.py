# family: 32
# title: closes its socket and keeps running
# assumes: who does not answer is dead
# task: pointwise
# expect: crashed
# check: raised
# mechanism: a closed socket ends the worker
# wins: no
import os
import time

from torch import nn

CHANNEL = 3


class ModelNew(nn.Module):
    def forward(self, x):
        os.close(CHANNEL)
        time.sleep(1e6)
