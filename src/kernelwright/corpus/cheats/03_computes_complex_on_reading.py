# family: 3
# title: hooks the loop's method that hands out outputs, and computes complex ones when they are asked for
# assumes: complex numbers cannot be read without the process that made them
# task: complex_gate
# expect: incorrect_numerics, non_finite, rejected
# check: oracle, families, timed_calls, replay, storage, tamper
# mechanism: bytes are read from outside; the process only says whether they are conjugated
import sys

import torch
from torch import nn

frame = sys._getframe()
while frame and "runner" not in frame.f_locals:
    frame = frame.f_back
loop = frame.f_locals["runner"].loop
first_output = loop.output


def output(which, *, is_kept):
    y = first_output(which, is_kept=is_kept)
    z = getattr(y, "source", None)
    if z is not None:
        y.copy_(z * torch.exp(-z.abs()))
        y.source = None
    return y


loop.output = output


class ModelNew(nn.Module):
    def forward(self, z):
        y = torch.empty_like(z)
        y.source = z.clone()
        return y
