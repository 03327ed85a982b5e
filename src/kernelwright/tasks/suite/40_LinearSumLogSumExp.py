import torch
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Linear layer, sum over its outputs, then log-sum-exp over the steps of a sequence."""

    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x):
        return torch.logsumexp(self.linear(x).sum(dim=-1) * self.scale, dim=1)


batch_size = 64
steps = 128
in_features = 512
out_features = 256
scale = 0.5


def get_inputs():
    return [torch.randn(batch_size, steps, in_features)]


def get_init_inputs():
    return [in_features, out_features, scale]
