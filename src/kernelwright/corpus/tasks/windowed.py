"""Rows go through one small matrix many times; every row is then given under 64 windows."""

import torch
from torch import nn

ROWS, WIDTH, STEPS, WINDOWS = 4, 128, 32, 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = torch.randn(WIDTH, WIDTH) * 0.08
        self.window = torch.hann_window(WINDOWS)[:, None] + 0.1

    def forward(self, x):
        for _ in range(STEPS):
            x = torch.tanh(x @ self.step)
        return x[:, None] * self.window


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
