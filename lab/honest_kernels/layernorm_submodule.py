# title: the layer as it is, called through a list of modules
# origin: torch
# task: 12_LayerNorm
# sizes: batch_size=4, steps=57, features=731
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        for layer in (self.norm, nn.Identity()):
            x = layer(x)
        return x
