"""A residual feed-forward tail as many models have it: bias, GELU, scale, residual, layer norm."""

import torch
from torch import nn

tokens = 4096
width = 1024


class Model(nn.Module):
    """y = layer_norm(gelu(x + bias) * gain + residual)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width) * 0.1)
        self.gain = nn.Parameter(torch.ones(width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(x + self.bias, approximate="tanh")
        return self.norm(hidden * self.gain + residual)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(tokens, width), torch.randn(tokens, width)]


def get_init_inputs() -> list[int]:
    return [width]
