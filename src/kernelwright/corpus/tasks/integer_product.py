"""A product of integer matrices; the example's values are small, the type is int64."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randint(-100, 100, (96, 256)), torch.randint(-100, 100, (256, 96))]


def get_init_inputs():
    return []
