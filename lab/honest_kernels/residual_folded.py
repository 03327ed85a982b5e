# title: normalisations folded into the convolutions in every call
# origin: torch
# task: 54_ResidualBlock
# sizes: batch_size=3, in_channels=5, out_channels=8, height=18, width=20
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
        self.norm3 = nn.BatchNorm2d(out_channels)
        self.stride = stride

    def _folded(self, x, conv, norm, stride, padding):
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        weight = conv.weight * scale[:, None, None, None]
        return F.conv2d(x, weight, norm.bias - norm.running_mean * scale, stride=stride, padding=padding)

    def forward(self, x):
        y = torch.relu_(self._folded(x, self.conv1, self.norm1, self.stride, 1))
        y = self._folded(y, self.conv2, self.norm2, 1, 1)
        return torch.relu_(y.add_(self._folded(x, self.shortcut, self.norm3, self.stride, 0)))
