# title: statistics and updates by hand
# origin: torch
# task: 14_BatchNormTrain
# sizes: batch_size=5, channels=16, height=29, width=31
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, momentum=momentum)

    def forward(self, x):
        norm, n = self.norm, x.numel() // x.shape[1]
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance * (n / (n - 1)), norm.momentum)
            norm.num_batches_tracked += 1
        scale = norm.weight * torch.rsqrt(variance + norm.eps)
        return (x - mean[:, None, None]) * scale[:, None, None] + norm.bias[:, None, None]
