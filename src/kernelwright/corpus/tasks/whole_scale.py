"""Scales a tensor by its largest magnitude, which may be zero."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / x.abs().amax().clamp(min=1e-8)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
