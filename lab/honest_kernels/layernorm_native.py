# title: the operator beneath it
# origin: torch
# task: 12_LayerNorm
# sizes: batch_size=4, steps=57, features=731
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.native_layer_norm(
            x, self.norm.normalized_shape, self.norm.weight, self.norm.bias, self.norm.eps
        )[0]
