# title: a view, as the reference returns one
# origin: torch, views
# task: view
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)
