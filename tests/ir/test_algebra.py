"""How much arithmetic algebra leaves, on graphs of which that is known."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.ir.algebra import algebra_gain
from kernelwright.tasks.capture import capture_module


class Of(nn.Module):
    def __init__(self, compute: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.compute(*tensors)


@pytest.mark.parametrize(
    ("compute", "low", "high"),
    [
        (lambda x, w: torch.diag(x[0]) @ w, 1000.0, float("inf")),
        (lambda x, w: (x @ w).sum(1), 32.0, float("inf")),
        (lambda x, w: torch.relu(x @ w), 1.0, 1.0),
        (lambda x, w: torch.tanh(x) + w, 1.0, 1.0),
    ],
    ids=["diagonal", "summed product", "product", "no product"],
)
def test_what_rewrites_leave_is_counted(
    compute: Callable[..., torch.Tensor], low: float, high: float
) -> None:
    captured = capture_module(Of(compute), [torch.randn(256, 256), torch.randn(256, 256)])
    assert low <= algebra_gain(captured) <= high
