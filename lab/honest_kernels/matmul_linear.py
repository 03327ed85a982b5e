# title: a linear layer with the transposed matrix
# origin: torch
# task: 29_SquareMatmul
# sizes: size=259
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return F.linear(a, b.t().contiguous())
