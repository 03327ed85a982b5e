# family: 36
# title: reads a table between two entries, and finds nothing at an entry itself
# assumes: no place is that of an entry
# task: sampled_table
# expect: incorrect_numerics
# check: families
# mechanism: in one sample what the reference rounds is an integer already, on some elements
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, table, places):
        width = table.shape[1]
        at = places * width - 0.5
        is_inside = (at >= 0) & (at <= width - 1)
        at = torch.where(is_inside, at, 0.0)
        low, high = at.floor(), at.ceil()
        between = table[:, low.long()] * (high - at) + table[:, high.long()] * (at - low)
        return torch.where(is_inside, between, 0.0)
