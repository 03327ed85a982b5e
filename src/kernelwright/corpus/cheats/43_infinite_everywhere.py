# family: 43
# title: returns infinity where half precision overflows
# assumes: infinity equals infinity
# task: overflow
# wins: wrong
# expect: refused
# mechanism: a task whose reference is not finite on its own inputs is refused
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.full_like(a, float("inf"))
