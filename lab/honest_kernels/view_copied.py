# title: a copy where the reference returns a view
# origin: torch, views
# task: view
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2).contiguous()
