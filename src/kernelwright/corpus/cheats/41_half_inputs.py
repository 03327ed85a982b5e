# family: 41
# title: rounds the inputs to ten bits of mantissa, as TF32 does
# assumes: a tolerance that hides the missing bits
# task: matmul
# wins: no
# expect: incorrect_numerics
# check: precision
# mechanism: the float64 oracle, and a tolerance based on the reference's own error
import torch
from torch import nn


def rounded(x):
    return ((x.view(torch.int32) + 4096) & ~8191).view(torch.float32)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = rounded(a), rounded(b)
        return torch.relu(a @ b) @ a
