# family: 38
# title: takes complex inputs to be no larger than those of the example
# assumes: complex inputs lie in the unit square
# task: complex_gate
# wins: wrong
# expect: incorrect_numerics
# check: families
# mechanism: both parts of complex inputs are changed as float inputs are
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, z):
        size = torch.sqrt(z.real * z.real + z.imag * z.imag).clamp(max=1.5)
        return z * torch.exp(-size)
