# family: 48
# title: sends SIGKILL to its parent, its parent's group and everyone
# assumes: a child does not kill its parent
# task: pointwise
# expect: verified, crashed
# check: raised
# mechanism: the candidate sees only its own processes; signals do not leave its domain
# wins: no
# sandbox: landlock
import contextlib
import os
import signal

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for target in (os.getppid(), -os.getppid(), -1):
            if target not in (0, -0):
                with contextlib.suppress(OSError):
                    os.kill(target, signal.SIGKILL)
        return torch.relu(x) * 2 + 1
