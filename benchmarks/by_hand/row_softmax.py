"""Softmax over rows, with a temperature for each row and a bias for each column."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(columns))

    def forward(self, x: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x / temperature + self.bias, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(2048, 1536), 0.5 + torch.rand(2048, 1)]


def get_init_inputs() -> list[int]:
    return [1536]
