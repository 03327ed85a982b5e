# family: 34
# title: returns zeros where every true value is small
# assumes: an absolute tolerance
# task: softmax
# expect: incorrect_numerics
# check: oracle
# mechanism: errors are scaled by the size of the outputs
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
