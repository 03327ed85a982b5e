"""A running mean is judged beside the size of what it averages."""

import pytest
import torch
from torch import nn

from kernelwright.referee.host.averages import AveragedSizes


def sizes_after(model: nn.Module, *inputs: torch.Tensor) -> AveragedSizes:
    with AveragedSizes() as sizes:
        model(*inputs)
    return sizes


@pytest.mark.parametrize(
    ("norm", "shape"),
    [(nn.BatchNorm1d, (50, 8)), (nn.BatchNorm2d, (4, 8, 5, 5)), (nn.BatchNorm3d, (2, 8, 3, 3, 3))],
)
def test_the_size_is_the_newest_share_of_the_root_mean_square(
    norm: type[nn.Module], shape: tuple[int, ...]
) -> None:
    model, x = norm(8, momentum=0.25), 3.0 * torch.randn(shape)
    sizes = sizes_after(model, x)
    assert isinstance(model.running_mean, torch.Tensor)
    assert sizes.of(model.running_mean) == pytest.approx(0.25 * float(x.square().mean().sqrt()), rel=1e-5)


def test_other_buffers_have_none() -> None:
    model = nn.BatchNorm1d(8)
    sizes = sizes_after(model, torch.randn(50, 8))
    assert isinstance(model.running_var, torch.Tensor)
    assert sizes.of(model.running_var) == 0.0


def test_a_norm_that_keeps_nothing_has_none() -> None:
    x = torch.randn(50, 8)
    assert sizes_after(nn.BatchNorm1d(8, track_running_stats=False), x).of(x) == 0.0


def test_of_several_calls_the_largest_counts() -> None:
    model, small, large = nn.BatchNorm1d(8), torch.randn(50, 8), 9.0 * torch.randn(50, 8)
    with AveragedSizes() as sizes:
        for x in (small, large, small):
            model(x)
    assert isinstance(model.running_mean, torch.Tensor)
    assert sizes.of(model.running_mean) == pytest.approx(0.1 * float(large.square().mean().sqrt()), rel=1e-5)


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_what_is_not_finite_has_no_size(value: float) -> None:
    model, x = nn.BatchNorm1d(8), torch.randn(50, 8)
    x[3, 2] = value
    assert isinstance(model.running_mean, torch.Tensor)
    assert sizes_after(model, x).of(model.running_mean) == 0.0
