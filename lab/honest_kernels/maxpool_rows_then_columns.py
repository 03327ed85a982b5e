# title: rows first, columns behind them
# origin: torch
# task: 21_MaxPool2d
# sizes: batch_size=3, channels=15, height=53, width=67
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x):
        k, s, p = self.kernel_size, self.stride, self.padding
        return F.max_pool2d(F.max_pool2d(x, (1, k), (1, s), (0, p)), (k, 1), (s, 1), (p, 0))
