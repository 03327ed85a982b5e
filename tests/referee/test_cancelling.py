"""Inputs on which sums of several of them cancel."""

from collections.abc import Callable

import pytest
import torch

from kernelwright.referee.host.cancelling import solve_cancelled
from kernelwright.referee.host.odd_rows import NEAR

Reference = Callable[..., torch.Tensor]


def solved(reference: Reference, *values: torch.Tensor) -> list[torch.Tensor] | None:
    def run_told(tensors: list[torch.Tensor], tell: Callable[[list[torch.Tensor]], None]) -> None:
        given = [x.clone() for x in tensors]
        tell(given)
        reference(*given)

    return solve_cancelled(run_told, values, torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("reference", "left"),
    [
        (lambda h, r, t: (h + r - t).norm(), lambda h, r, t: h + r - t),
        (lambda h, r, t: torch.add(t, h * r, alpha=-2), lambda h, r, t: t - 2 * h * r),
        (lambda h, r, t: (h * r).t() - t.t(), lambda h, r, t: (h * r - t).t()),
        (lambda h, r, t: t[:, :8] + h[:, 8:] * 2, lambda h, r, t: t[:, :8] + h[:, 8:] * 2),
        (lambda h, r, t: (h @ r.t()).sub_(t[:, :1]), None),  # no place of a row for itself
        (lambda h, r, t: t - h * r.mean(), lambda h, r, t: t - h * r.mean()),
    ],
)
def test_an_input_becomes_what_cancels_the_others(reference: Reference, left: Reference | None) -> None:
    drawn = [torch.randn(64, 16) for _ in range(3)]
    found = solved(reference, *drawn)
    if left is None:
        assert found is None
        return
    assert found is not None
    gaps = left(*found).abs().amax(1)
    n_exact, n_near = int((gaps < 1e-6).sum()), int((gaps < 32 * NEAR).sum())
    assert 1 < n_exact < n_near < len(gaps)


@pytest.mark.parametrize(
    "reference",
    [
        lambda x, y: x - y,  # the same inputs are another sample
        lambda x, y: x + x.sigmoid() * 2,
        lambda x, y: x * y + 1.0,
        lambda x, y: x.mean() - y.mean(),
        lambda x, y: (x > 0) & (y > 0),
    ],
)
def test_other_operations_leave_inputs_as_they_are(reference: Reference) -> None:
    assert solved(reference, torch.randn(8, 4), torch.randn(8, 4)) is None


def test_a_sum_of_two_inputs_cancels() -> None:
    found = solved(lambda x, y: x + y, torch.randn(64, 4), torch.randn(64, 4))
    assert found is not None and int((found[0] == -found[1]).all(1).sum()) > 5


def test_masks_are_left_alone() -> None:
    mask = torch.where(torch.randn(8, 8) > 0, 0.0, -9.0)
    assert solved(lambda x, m: x * 2 + m, torch.randn(8, 8), mask) is None
