"""Elementary functions that no algebra removes: counted once, never too many."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.tasks.test_work import work_of
from torch import nn

N = 32 * 64
X, Y = torch.randn(32, 64), torch.randn(32, 64)


@pytest.mark.parametrize(
    ("function", "counted"),
    [
        (lambda x, y: torch.tanh(x), {"tanh": N}),
        (lambda x, y: F.gelu(x + 1), {"erf": N}),
        (lambda x, y: F.silu(x) * y, {"exp": N}),
        (lambda x, y: torch.softmax(x, -1), {"exp": N}),
        (lambda x, y: torch.logsumexp(x, -1), {"exp": N}),
        (lambda x, y: F.layer_norm(x, (64,)).sigmoid(), {"exp": N}),
        (lambda x, y: x / y, {"div": N}),
        (lambda x, y: torch.tanh(x)[:16], {"tanh": N // 2}),
    ],
)
def test_what_every_kernel_must_evaluate_is_counted(
    function: Callable[..., torch.Tensor], counted: dict[str, int]
) -> None:
    assert dict(work_of(function, X, Y).functions) == counted


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda x, y: torch.log(torch.exp(x)), 0),
        (lambda x, y: torch.exp(x) * torch.exp(y), N),
        (lambda x, y: torch.exp(x) / torch.exp(y), N),
        (lambda x, y: torch.log(x) + torch.log(y), N),
        (lambda x, y: torch.tanh(x) + torch.sigmoid(x), N),
        (lambda x, y: torch.exp(x[:, None, :1] + y[None, :, :1]), 64),
        (lambda x, y: torch.exp(x[:, :1].expand(32, 64)), 32),
        (lambda x, y: torch.relu(torch.tanh(x)), 0),
        (lambda x, y: torch.exp(x).amax(-1), 0),
        (lambda x, y: torch.softmax(x, -1).argmax(-1), 0),
        (lambda x, y: torch.exp(x) > y, 0),
        (lambda x, y: F.elu(x), 0),
        (lambda x, y: torch.where(y > 0, torch.exp(x), y), 0),
        (lambda x, y: x / 3, 0),
    ],
)
def test_what_algebra_or_values_can_save_is_not_counted(
    function: Callable[..., torch.Tensor], most: int
) -> None:
    assert sum(dict(work_of(function, X, Y).functions).values()) <= most


def test_functions_behind_products_are_left_to_the_products() -> None:
    assert work_of(nn.Sequential(nn.Linear(64, 64), nn.GELU()), X).functions == ()


def test_a_long_residual_chain_is_counted_in_no_time() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(200):
            x = x + x * 2
        return torch.tanh(x)

    assert work_of(function, X).functions == (("tanh", N),)
