"""A sum of two integers; the example's values are small, the type is int64."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return a + b


def get_inputs():
    return [torch.randint(-100, 100, (256, 256)), torch.randint(-100, 100, (256, 256))]


def get_init_inputs():
    return []
