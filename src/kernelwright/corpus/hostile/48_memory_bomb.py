# family: 48
# title: allocates memory until none is left
# assumes: memory is free
# task: pointwise
# expect: runtime_error, crashed, timeout
# check: raised, limits
# mechanism: a limit on address space
# wins: no
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        kept = []
        while True:
            kept.append(torch.ones(64, 1 << 20))
