"""A learned spectral filter along time, all-pass as constructed (ones), as such filters often start."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.filter = nn.Parameter(torch.ones(n // 2 + 1, dtype=torch.complex64))

    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=1) * self.filter[:, None]
        return torch.fft.irfft(spectrum, n=x.shape[1], dim=1)


def get_inputs():
    return [torch.randn(16, 256, 64)]


def get_init_inputs():
    return [256]
