# family: 6
# title: exchanges the code object of the function that copies outputs
# assumes: a function that is still the same object does the same
# task: matmul
# wins: no
# expect: rejected
# check: tamper
# mechanism: code objects are compared as well
import sys

import torch
from torch import nn

runner = sys.modules.get("kernelwright.referee.worker.runner")
if runner is None:
    raise LookupError("no runner in this process")


def _checked(value, slot):
    return value


runner._checked.__code__ = _checked.__code__


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
