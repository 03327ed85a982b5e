# title: the positions of the maximum
# origin: torch
# task: 10_ArgmaxRows
# sizes: batch_size=4, rows=73, features=531
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.max(dim=-1).indices
