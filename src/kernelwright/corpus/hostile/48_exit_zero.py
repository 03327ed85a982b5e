# family: 48
# title: ends its process as if all were well
# assumes: exit code 0 means success
# task: pointwise
# expect: crashed
# check: raised
# mechanism: no verdict without an answer over the socket
# wins: no
import os

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os._exit(0)
