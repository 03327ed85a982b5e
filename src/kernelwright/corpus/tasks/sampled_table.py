"""Reads a table between its entries, whose places are the centres of cells, at places from 0 to 1."""

import torch
from torch import nn

N, WIDTH = 512, 64


class Model(nn.Module):
    def forward(self, table, places):
        width = table.shape[1]
        at = places * width - 0.5
        is_inside = (at >= 0) & (at <= width - 1)
        at = torch.where(is_inside, at, 0.0)
        low = at.floor()
        part = at - low
        first = low.long()
        second = (first + 1).clamp(max=width - 1)
        return torch.where(is_inside, table[:, first] * (1 - part) + table[:, second] * part, 0.0)


def get_inputs():
    return [torch.randn(8, WIDTH), torch.rand(N)]


def get_init_inputs():
    return []
