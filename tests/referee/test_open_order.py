"""Which references leave it open which of equal values comes first."""

from collections.abc import Callable

import pytest
import torch

from kernelwright.referee.host.open_order import OrderTrace

X = torch.tensor([[[1.0, 1.0], [1.0, 1.0]]])
OPEN: list[Callable[[], object]] = [
    lambda: X.topk(1),
    lambda: X.cummax(-1),
    lambda: X.cummin(-1),
    lambda: torch.nn.functional.max_pool2d(X, 2, return_indices=True),
    lambda: X.sort(dim=-1),
]
SETTLED: list[Callable[[], object]] = [
    lambda: X.sort(dim=-1, stable=True),
    lambda: X.max(dim=-1),
    lambda: X.cumsum(-1),
]


def is_open(call: Callable[[], object]) -> bool:
    with OrderTrace() as trace:
        call()
    return bool(trace.is_open)


@pytest.mark.parametrize("call", OPEN)
def test_nobody_promises_which_of_equal_values_comes_first(call: Callable[[], object]) -> None:
    assert is_open(call)


@pytest.mark.parametrize("call", SETTLED)
def test_it_is_known_which_of_equal_values_comes_first(call: Callable[[], object]) -> None:
    assert not is_open(call)
