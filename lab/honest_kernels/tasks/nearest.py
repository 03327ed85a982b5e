"""The nearest entry of a code book for each vector."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, codes):
        return torch.cdist(x, codes).argmin(dim=1)


def get_inputs():
    return [torch.randn(256, 32), torch.randn(128, 32)]


def get_init_inputs():
    return []
