# title: a product with a triangle of ones
# origin: torch
# task: 24_CumulativeSum
# sizes: batch_size=137, length=803
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x @ torch.ones(x.shape[1], x.shape[1]).triu()
