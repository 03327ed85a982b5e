# title: masked elements filled with one
# origin: torch
# task: 26_MaskedCumulativeProduct
# sizes: batch_size=337, length=261
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, mask):
        return x.masked_fill(~mask, 1.0).cumprod(dim=1)
