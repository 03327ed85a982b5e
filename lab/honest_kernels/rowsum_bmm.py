# title: a batch of dot products
# origin: torch
# task: 7_RowSum
# sizes: batch_size=500, features=1003
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.bmm(x.unsqueeze(1), x.unsqueeze(2)).squeeze(2)
