# title: the scale as the product's factor
# origin: torch
# task: 33_GramMatrix
# sizes: batch_size=3, vectors=67, features=41
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        zero = torch.zeros(())
        return torch.baddbmm(zero, x, x.transpose(1, 2), beta=0, alpha=self.scale)
