# title: channels last throughout
# origin: torch, layouts
# task: 54_ResidualBlock
# sizes: batch_size=3, in_channels=5, out_channels=8, height=18, width=20
import torch
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

    def forward(self, x):
        x = x.contiguous(memory_format=torch.channels_last)
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y)) + self.norm3(self.shortcut(x))
        return torch.relu(y).contiguous()
