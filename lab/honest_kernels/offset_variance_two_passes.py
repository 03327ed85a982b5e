# title: two passes in float32, where torch sums in float64
# origin: torch
# task: offset_variance
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x + 1000
        return (y - y.mean(dim=1, keepdim=True)).square().sum(dim=1) / (y.shape[1] - 1)
