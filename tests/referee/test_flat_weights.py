"""Parameters that are zero as a whole, or like each other."""

import pytest
import torch

from kernelwright.referee.host.flat_weights import FLAT, LARGER
from kernelwright.referee.host.odd_rows import NEAR
from kernelwright.referee.session.reference_process import FLAT_STYLES


def changed(style: str, *parameters: torch.Tensor) -> list[torch.Tensor]:
    found = [x.clone() for x in parameters]
    FLAT[style](found, torch.Generator().manual_seed(5))
    return found


@pytest.mark.parametrize(("style", "n_zero"), [("all_zero", 4), ("half_zero", 2), ("one_zero", 1)])
def test_parameters_are_zero_as_a_whole(style: str, n_zero: int) -> None:
    found = changed(style, *(torch.ones(3, 2) for _ in range(4)))
    assert [bool(x.any()) for x in found].count(False) == n_zero
    assert all(x.all() for x in found if x.any())


@pytest.mark.parametrize("shape", [(64,), (32, 8), (4, 8, 8)])
def test_parameters_of_one_form_are_nearly_alike(shape: tuple[int, ...]) -> None:
    drawn, other = torch.randn(shape), torch.randn(3)
    first, second, last = changed("alike_large", drawn, torch.randn(shape), other)
    assert torch.equal(first, drawn * LARGER) and torch.equal(last, other)
    gap = (first - second).abs()
    assert 0 < float((gap / first.abs()).max()) <= 1.01 * NEAR
    rows = gap.reshape(-1, shape[-1] if len(shape) > 1 else 1)
    assert bool((rows == 0).all(1).any())


def test_constant_parameters_are_drawn_anew_before_they_are_alike() -> None:
    first, second = changed("alike", torch.zeros(64), torch.zeros(64))
    assert len(first.unique()) > 9 and not torch.equal(first, second)


def test_every_style_has_its_turn() -> None:
    assert {style for styles in FLAT_STYLES.values() for style in styles} == set(FLAT)
