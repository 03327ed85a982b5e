"""A linear layer, SiLU, and the logsumexp of every row."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(nn.functional.silu(self.linear(x)), dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(512, 768)]


def get_init_inputs() -> list[int]:
    return [768, 1024]
