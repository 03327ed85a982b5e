# title: one product, masked behind it
# origin: torch
# task: 32_LowerTriangularMatmul
# sizes: size=131
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.tril() @ b.tril()).tril_()
