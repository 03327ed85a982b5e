"""Originals that can be imported, as a user's package has them."""

from collections import OrderedDict

import torch
from torch import nn


class Norm(nn.Module):
    """Has a tied weight, a constant that no state_dict holds, an attribute and an inner module."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.tied = self.weight
        self.register_buffer("table", torch.linspace(-1.0, 1.0, width), persistent=False)
        self.inner = nn.Dropout(0.0)
        self.bias = None
        self.eps = 1e-6
        self.activation = torch.nn.functional.relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.activation(self.weight * (x * torch.rsqrt(variance + self.eps)) + self.tied + self.table)


class Configured(nn.Module):
    """Holds an object that no folder keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.config = Config()
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.weight) * self.config.factor


class Config:
    """As models of other libraries have it."""

    factor = 2.0


class Sized(nn.Module):
    """Keeps a size, a dict with an order and a list, and uses what these alone can do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 32))
        self.shape = self.weight.shape
        self.factors = OrderedDict(first=2.0, second=3.0)
        self.within = [{"sizes": (self.shape, OrderedDict(a=self.shape))}, 1.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n_elements = self.shape.numel() + self.within[0]["sizes"][1]["a"].numel()  # type: ignore[index]
        last = next(reversed(self.factors.values()))
        assert isinstance(self.factors, OrderedDict)
        return torch.tanh(x * self.weight) * n_elements * last * self.within[1]  # type: ignore[operator]


class Turned(nn.Module):
    """Has weights and a constant with strides of their own, complex numbers, and a frozen weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1.0, 1.0, 32 * 32).view(32, 32).t())
        self.phase = nn.Parameter(torch.full((32,), 3 + 4j))
        self.still = nn.Parameter(torch.ones(32), requires_grad=False)
        self.register_buffer("table", torch.linspace(0.0, 1.0, 4 * 32).view(32, 4).t(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight + self.table) * self.phase.abs() * self.still
