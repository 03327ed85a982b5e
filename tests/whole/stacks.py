"""Small models of equal blocks."""

import torch
from torch import nn


class Gate(nn.Module):
    """A norm and pointwise work."""

    def __init__(self, width: int, *, slope: float = 0.5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.norm(x) * self.scale) + torch.sigmoid(x)
        return y * torch.relu(x) - self.slope * y


class Numbered(nn.Module):
    """A gate that knows its place, as layers of people's models do; what it knows decides little."""

    def __init__(self, width: int, place: int, *, is_odd: bool = False) -> None:
        super().__init__()
        self.layer_idx, self.title = place, f"layer {place}"
        self.gate = Gate(width)
        self.is_last = is_odd
        self.register_buffer("shift", torch.full((width,), 0.5), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.gate(x) + self.shift
        return -y if self.is_last else y


class Mlp(nn.Module):
    """Two products with a norm inside; takes and returns more than a tensor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.gate = Gate(2 * width)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.gate(self.up(x))
        return x + scale * self.down(y), y.mean(-1)


class Net(nn.Module):
    """Blocks of two kinds, one of them once, and a head."""

    def __init__(self, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Mlp(width) for _ in range(depth))
        self.last = Gate(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(x.shape[:-1])
        for layer in self.layers:
            x, mean = layer(x, scale=0.5)
            total = total + mean
        return self.head(self.last(x)) + total.unsqueeze(-1)
