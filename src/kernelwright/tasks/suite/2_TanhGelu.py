import math

import torch
from torch import nn

CATEGORY = "pointwise"


class Model(nn.Module):
    """GELU in its tanh form, written out operator by operator."""

    def forward(self, x):
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


batch_size = 2048
features = 2048


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return []
