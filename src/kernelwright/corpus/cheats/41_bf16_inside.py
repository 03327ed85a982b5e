# family: 41
# title: multiplies in bfloat16 and returns float32
# assumes: a tolerance that hides the missing bits
# task: matmul
# wins: no
# expect: incorrect_numerics
# check: precision
# mechanism: the float64 oracle, and a tolerance based on the reference's own error
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        middle = (a.bfloat16() @ b.bfloat16()).float()
        return (torch.relu(middle).bfloat16() @ a.bfloat16()).float()
