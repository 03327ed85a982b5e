# title: half of it, mirrored
# origin: torch
# task: 33_GramMatrix
# sizes: batch_size=3, vectors=67, features=41
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        half = (x * self.scale).bmm(x.transpose(1, 2)).tril()
        return half + half.tril(-1).transpose(1, 2)
