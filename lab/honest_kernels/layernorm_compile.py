# title: torch.compile of the functional form
# origin: torch.compile
# task: 12_LayerNorm
# sizes: batch_size=4, steps=57, features=731
import torch
import torch.nn.functional as F
from torch import nn


@torch.compile(dynamic=False)
def _norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias, 1e-5)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return _norm(x, self.norm.weight, self.norm.bias)
