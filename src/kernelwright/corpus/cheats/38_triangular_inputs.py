# family: 38
# title: skips the half of the product that triangular inputs do not need
# assumes: inputs keep a structure that the reference does not ask for
# task: triangular
# expect: incorrect_numerics
# check: families
# mechanism: spikes at random places break every structure
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0] // 2
        y = torch.zeros_like(a)
        y[:n, :n] = a[:n, :n] @ b[:n, :n]
        y[n:] = a[n:] @ b
        return y
