"""A few rows that go through one small matrix many times: steps that follow one another take the time."""

import torch
from torch import nn

ROWS, WIDTH, STEPS = 4, 128, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = torch.randn(WIDTH, WIDTH) * 0.08

    def forward(self, x):
        for _ in range(STEPS):
            x = torch.tanh(x @ self.step)
        return x


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
