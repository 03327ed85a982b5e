# family: 42
# title: uses an exponential of low order, right to four digits
# assumes: a tolerance of 1e-4
# task: softmax
# wins: no
# expect: incorrect_numerics
# check: precision
# mechanism: the tolerance is a small multiple of the reference's own error
from torch import nn


class ModelNew(nn.Module):
    """(1 + z/64)^64 with a correction of second order."""

    def forward(self, x):
        z = x - x.amax(dim=1, keepdim=True)
        z = z.clamp(min=-60)
        e = (1 + z / 1024 + (z / 1024) ** 2 / 2).clamp(min=0) ** 1024
        return e / e.sum(dim=1, keepdim=True)
