# title: the product of the transposed; returns a transposed view of fresh memory
# origin: torch, layouts
# task: 29_SquareMatmul
# sizes: size=259
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (b.t() @ a.t()).t()
