# title: a batch normalisation whose channels are the rows
# origin: torch
# task: 12_LayerNorm
# sizes: batch_size=4, steps=57, features=731
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        rows = x.reshape(1, -1, x.shape[-1])
        normal = F.batch_norm(rows, None, None, training=True, eps=self.norm.eps).view_as(x)
        return torch.addcmul(self.norm.bias, normal, self.norm.weight)
