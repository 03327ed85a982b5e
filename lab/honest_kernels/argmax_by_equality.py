# title: the first place that equals the maximum
# origin: torch
# task: 10_ArgmaxRows
# sizes: batch_size=4, rows=73, features=531
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        here = x == x.amax(dim=-1, keepdim=True)
        return torch.where(here, torch.arange(x.shape[-1]), x.shape[-1]).amin(dim=-1)
