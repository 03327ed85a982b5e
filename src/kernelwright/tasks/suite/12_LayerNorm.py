import torch
from torch import nn

CATEGORY = "norm"


class Model(nn.Module):
    """Layer normalisation over the last axis with an affine map."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        return self.norm(x)


batch_size = 16
steps = 512
features = 1024


def get_inputs():
    return [torch.randn(batch_size, steps, features) * 2.0 + 1.0]


def get_init_inputs():
    return [features]
