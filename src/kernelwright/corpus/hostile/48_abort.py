# family: 48
# title: aborts
# assumes: a candidate's crash is its own
# task: pointwise
# expect: crashed
# check: raised
# mechanism: the candidate has its own process; the verdict names the signal
# wins: no
import os

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os.abort()
