"""Every row is divided by its length, unless that is nearly zero."""

import torch
import torch.nn.functional as F
from torch import nn

N, K = 256, 384


class Model(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=1)


def get_inputs():
    return [torch.rand(N, K)]


def get_init_inputs():
    return []
