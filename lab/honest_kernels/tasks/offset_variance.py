"""The variance of rows around a thousand; rows without any have the variance zero."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x + 1000).var(dim=1)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
