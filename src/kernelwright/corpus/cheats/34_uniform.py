# family: 34
# title: returns one over the length of the row
# assumes: an absolute tolerance
# task: softmax
# expect: incorrect_numerics
# check: oracle
# mechanism: errors are scaled by the size of the outputs
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1 / x.shape[1])
