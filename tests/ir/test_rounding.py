"""Which products round on their own: those of sums that a pole or a jump reads, and no others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.ir.dag import Dag
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Region
from kernelwright.ir.rounding import rounded_products
from kernelwright.tasks.capture import capture_module

from .lowering_checks import Wrap

X = torch.rand(4, 8)


def count(function: Callable[..., Any]) -> int:
    """The rounded products of a function's regions."""
    program = lower(capture_module(Wrap(function), (X, X + 1)))
    regions = [step for step in program.steps if isinstance(step, Region)]
    assert regions
    return sum(len(rounded_products(Dag(region))) for region in regions)


@pytest.mark.parametrize(
    ("function", "products"),
    [
        (lambda a, b: (a * a - b * b).sqrt(), 2),
        (lambda a, b: torch.where(a * b - 1 > 0, a, b), 1),
        (lambda a, b: (a - (-(a * b))).sum(1).log(), 1),
        (lambda a, b: (a * b - b).argmax(1), 1),
    ],
)
def test_products_below_a_pole_or_a_jump_round(function: Callable[..., Any], products: int) -> None:
    assert count(function) == products


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: (a * b + 1).relu() * (a * b - b).tanh(),
        lambda a, b: (a * 0.5 + b).softmax(1),
        lambda a, b: F.silu(a * b - 1).sum(1),
        lambda a, b: (a * b).sqrt() + a * b,
    ],
)
def test_other_products_may_be_fused(function: Callable[..., Any]) -> None:
    assert count(function) == 0
