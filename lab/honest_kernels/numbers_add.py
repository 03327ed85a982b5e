# title: one operator
# origin: torch
# task: numbers
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, factor, shift):
        return torch.add(torch.full_like(x, shift), x, alpha=factor)
