# title: the output in the input's own layout
# origin: torch, layouts
# task: turned
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.tanh(x).add_(y)
