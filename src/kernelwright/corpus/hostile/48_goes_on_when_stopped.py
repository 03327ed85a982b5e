# family: 48
# title: has a timer, and a descriptor, send it SIGCONT, so that it goes on when it has been stopped
# assumes: what has been stopped stands still until it is let go
# task: pointwise
# expect: verified
# mechanism: timers that send signals and other signals of descriptors are refused
# wins: no
# sandbox: limits
import contextlib
import ctypes
import fcntl
import os
import signal

import torch
from torch import nn

F_SETSIG = 10
libc = ctypes.CDLL(None)
event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
if libc.timer_create(1, event, ctypes.byref(ctypes.c_void_p())) == 0:
    raise RuntimeError("HARMED: a timer may send it SIGCONT")
with contextlib.suppress(OSError):
    fcntl.fcntl(os.pipe()[0], F_SETSIG, signal.SIGCONT)
    raise RuntimeError("HARMED: a descriptor may send it SIGCONT")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1
