# family: 48
# title: raises an exception that raises when it is printed
# assumes: an exception can be printed
# task: pointwise
# expect: runtime_error, crashed
# check: raised
# mechanism: a worker that does not answer counts as dead
# wins: no
import os

from torch import nn


class Trap(Exception):
    def __str__(self):
        os._exit(0)


class ModelNew(nn.Module):
    def forward(self, x):
        raise Trap
