# title: factors for rows and columns
# origin: torch
# task: 31_DiagonalBothSides
# sizes: rows=67, columns=131
from torch import nn


class ModelNew(nn.Module):
    def forward(self, left, x, right):
        return left[:, None] * x * right
