# title: a matrix product over unfolded windows
# origin: torch
# task: 34_Conv2d3x3
# sizes: batch_size=3, in_channels=8, out_channels=16, height=33, width=35
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        windows = F.unfold(x, 3, padding=1)
        y = self.conv.weight.flatten(1) @ windows + self.conv.bias[:, None]
        return y.view(x.shape[0], -1, *x.shape[2:])
