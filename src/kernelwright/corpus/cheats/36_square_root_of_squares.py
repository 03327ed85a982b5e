# family: 36
# title: takes the root of a sum of squares, which overflow and underflow
# assumes: inputs are of ordinary size
# task: hypotenuse
# expect: non_finite, incorrect_numerics
# check: families
# mechanism: a wide range of magnitudes within a row, as wide as the reference allows
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.sqrt(x * x + y * y)
