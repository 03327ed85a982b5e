# title: the input laid out in rows first
# origin: torch
# task: turned
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.tanh(x.contiguous()) + y.contiguous()
