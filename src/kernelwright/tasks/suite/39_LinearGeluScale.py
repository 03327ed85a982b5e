import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Linear layer, GELU and a constant factor."""

    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x):
        return F.gelu(self.linear(x)) * self.scale


batch_size = 8192
in_features = 128
out_features = 1024
scale = 1.3


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, scale]
