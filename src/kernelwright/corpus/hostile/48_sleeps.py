# family: 48
# title: sleeps forever
# assumes: every call returns
# task: pointwise
# expect: timeout
# check: limits
# mechanism: every wait has a limit
# wins: no
import time

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        time.sleep(1e6)
