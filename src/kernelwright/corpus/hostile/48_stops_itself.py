# family: 48
# title: stops its own process
# assumes: a process runs or ends
# task: pointwise
# expect: timeout
# check: limits
# mechanism: every wait has a limit
# wins: no
import os
import signal

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGSTOP)
        return torch.relu(x) * 2 + 1
