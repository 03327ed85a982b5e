# family: 48
# title: ends its process with exit code 0
# assumes: exit code 0 means success
# task: pointwise
# expect: crashed
# check: raised
# mechanism: without an answer over the socket there is no verdict
# wins: no
import os

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os._exit(0)
