# title: a product of Fourier transforms
# origin: torch
# task: 34_Conv2d3x3
# sizes: batch_size=3, in_channels=8, out_channels=16, height=33, width=35
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        height, width = x.shape[2:]
        size = (height + 2, width + 2)
        images = torch.fft.rfft2(x, s=size)
        filters = torch.fft.rfft2(self.conv.weight.flip(2, 3), s=size)
        y = torch.fft.irfft2(torch.einsum("bchw,ochw->bohw", images, filters), s=size)
        return y[..., 1 : height + 1, 1 : width + 1] + self.conv.bias[:, None, None]
