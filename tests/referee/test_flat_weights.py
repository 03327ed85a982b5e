"""Parameters that are zero as a whole, or like each other, and buffers of other signs."""

import pytest
import torch

from kernelwright.referee.host.flat_weights import FLAT, LARGER, SIGNED, sign
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
    assert {style for styles in FLAT_STYLES.values() for style in styles} == {*FLAT, *SIGNED}


@pytest.mark.parametrize(("without", "stays"), [(None, ""), (0, "mean"), (1, "var"), (2, "")])
def test_signs_of_buffers_change_but_for_those_of_one_name(without: int | None, stays: str) -> None:
    buffers = {f"{part}.{name}": torch.ones(64) for part in ("a", "b") for name in ("mean", "var")}
    sign(buffers, torch.Generator().manual_seed(5), without=without)
    for name, x in buffers.items():
        assert bool((x.abs() == 1).all())
        assert bool((x < 0).any()) == (name.rpartition(".")[2] != stays)


def test_a_buffer_of_one_element_surely_has_the_other_sign() -> None:
    buffers = {"limit": torch.tensor(3.0)}
    sign(buffers, torch.Generator().manual_seed(5), without=None)
    assert float(buffers["limit"]) == -3.0
