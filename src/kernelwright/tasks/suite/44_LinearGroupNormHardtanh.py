import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Linear layer, group normalisation of its features, hardtanh."""

    def __init__(self, in_features, out_features, groups, low, high):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(groups, out_features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)
        self.low = low
        self.high = high

    def forward(self, x):
        return F.hardtanh(self.norm(self.linear(x)), self.low, self.high)


batch_size = 4096
in_features = 256
out_features = 1024
groups = 16
low = -1.5
high = 1.0


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, groups, low, high]
