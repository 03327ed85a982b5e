# title: the functional form; the count by hand
# origin: torch
# task: 14_BatchNormTrain
# sizes: batch_size=5, channels=16, height=29, width=31
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, momentum=momentum)

    def forward(self, x):
        norm = self.norm
        norm.num_batches_tracked.add_(1)
        return F.batch_norm(
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias, True, norm.momentum, norm.eps
        )
