# title: nine products of shifted images
# origin: torch
# task: 34_Conv2d3x3
# sizes: batch_size=3, in_channels=8, out_channels=16, height=33, width=35
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        wide = F.pad(x, (1, 1, 1, 1))
        y = self.conv.bias[:, None, None].expand(x.shape[0], -1, *x.shape[2:]).clone()
        for i in range(3):
            for j in range(3):
                part = wide[:, :, i : i + x.shape[2], j : j + x.shape[3]]
                y += torch.einsum("bchw,oc->bohw", part, self.conv.weight[:, :, i, j])
        return y
