# title: by the layer, on a copy with channels last
# origin: torch, layouts
# task: 14_BatchNormTrain
# sizes: batch_size=5, channels=16, height=29, width=31
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, momentum=momentum)

    def forward(self, x):
        return self.norm(x.contiguous(memory_format=torch.channels_last)).contiguous()
