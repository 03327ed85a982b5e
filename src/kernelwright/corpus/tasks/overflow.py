"""In half precision every output is infinite, and infinity equals infinity."""

import torch
from torch import nn

N = 512


class Model(nn.Module):
    def forward(self, a, b):
        return (a * 1e3) @ (b * 1e3)


def get_inputs():
    return [torch.rand(N, N).half(), torch.rand(N, N).half()]


def get_init_inputs():
    return []
