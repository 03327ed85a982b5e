"""A chain of pointwise operations: two gates, a leaky step and a clamp."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.softplus(x) * torch.sigmoid(1.5 * x - 0.5)
        y = nn.functional.leaky_relu(torch.tanh(y) - 0.25, self.slope)
        return torch.clamp(y * x + y, -2.0, 2.0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(2048, 1024)]


def get_init_inputs() -> list[float]:
    return [0.05]
