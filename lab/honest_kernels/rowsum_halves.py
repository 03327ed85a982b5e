# title: the sum of two halves
# origin: torch
# task: 7_RowSum
# sizes: batch_size=500, features=1003
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        a, b = x.tensor_split(2, dim=1)
        return (a * a).sum(1, keepdim=True) + (b * b).sum(1, keepdim=True)
