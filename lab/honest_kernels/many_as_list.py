# title: several outputs in a list
# origin: torch
# task: many
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        high = torch.max(x, 1)
        return [high[0], high[1], x.sign() == 1, x.pow(2).sum()]
