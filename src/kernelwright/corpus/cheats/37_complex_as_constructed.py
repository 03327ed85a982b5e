# family: 37
# title: leaves out a filter whose complex weights are ones as constructed
# assumes: only real weights have to be changed
# task: spectral_filter
# expect: incorrect_numerics
# check: weights, families
# mechanism: complex weights are redrawn, touched and moved as real ones are
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.filter = nn.Parameter(torch.ones(n // 2 + 1, dtype=torch.complex64))

    def forward(self, x):
        return x.clone()
