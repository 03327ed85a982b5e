# title: a group normalisation with one group
# origin: torch
# task: 12_LayerNorm
# sizes: batch_size=4, steps=57, features=731
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        return F.group_norm(rows, 1, self.norm.weight, self.norm.bias, self.norm.eps).view_as(x)
