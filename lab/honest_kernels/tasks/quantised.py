"""Rows as eight-bit integers, each with its own scale."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, scale):
        return (x / scale).round().clamp(-128, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(128, 512) * 3, torch.rand(128, 1) * 0.1 + 0.01]


def get_init_inputs():
    return []
