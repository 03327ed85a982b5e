"""Changed inputs and weights keep what must be kept."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.referee.host.change import AcceptedInputs, change_sample
from kernelwright.referee.host.input_distributions import SINK_DEPTH, change_inputs, cuts, nudge
from kernelwright.referee.host.odd_rows import Keeping
from kernelwright.referee.host.weight_draws import change_state

FAMILIES = ("as_is", "scaled", "negated", "sparse_spikes", "heavy_tail", "offset", "coarse", "sorted")


@settings(max_examples=40)
@given(
    family=st.sampled_from(FAMILIES),
    shape=st.lists(st.integers(0, 9), max_size=3),
    seed=st.integers(0, 2**31),
)
def test_every_family_stays_finite_and_repeats_under_its_seed(
    family: str, shape: list[int], seed: int
) -> None:
    one, other = torch.ones(shape), torch.ones(shape)
    for x in (one, other):
        change_inputs(x, family, 0, torch.Generator().manual_seed(seed))
    assert bool(torch.isfinite(one).all()) and torch.equal(one, other)


def test_rows_are_sorted_up_and_down() -> None:
    x = torch.randn(40, 3, 9)
    drawn = x.clone()
    change_inputs(x, "sorted", 0, torch.Generator().manual_seed(0))
    steps = x.diff(dim=-1)
    is_up, is_down = (steps >= 0).all(-1), (steps <= 0).all(-1)
    assert bool((is_up ^ is_down).all()) and bool(is_up.any()) and bool(is_down.any())
    assert torch.equal(x.sort(dim=-1).values, drawn.sort(dim=-1).values)


def test_an_offset_goes_either_way_so_that_products_of_two_inputs_have_both_signs() -> None:
    inputs = [torch.randn(64, 64), torch.arange(3), torch.randn(64, 64)]
    for variant, signs in ((0, (-1, -1)), (1, (-1, 1))):
        moved = [x.clone() for x in inputs]
        generator = torch.Generator().manual_seed(0)
        change_sample(moved, "offset", variant, Keeping.NOTHING, generator, AcceptedInputs())
        assert (float(moved[0].mean().sign()), float(moved[2].mean().sign())) == signs


def test_spikes_are_few_large_and_of_both_signs() -> None:
    x = torch.rand(100, 100).t()
    change_inputs(x, "sparse_spikes", 0, torch.Generator().manual_seed(0))
    n_spikes = int((x.abs() > 20).sum())
    assert 5 <= n_spikes <= 11
    assert bool((x > 20).any()) and bool((x < -20).any())


@pytest.mark.parametrize("shape", [(7,), (1000, 1000)])
def test_the_last_element_is_a_spike_however_many_there_are(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    change_inputs(x, "sparse_spikes", 0, torch.Generator().manual_seed(0))
    assert abs(float(x.flatten()[-1])) > 20


def test_spikes_stand_where_a_long_input_is_shared_out() -> None:
    x = torch.rand(1 << 20)
    change_inputs(x, "sparse_spikes", 0, torch.Generator().manual_seed(0))
    third = -(-len(x) // 3)
    for at in (len(x) // 2, third, len(x) - len(x) // 16):
        assert float(x[at - 1 : at + 1].abs().min()) > 20


def test_cuts_are_those_of_elements_and_of_rows_and_lie_inside() -> None:
    assert {4, 5} <= set(cuts(10, 10).tolist())
    assert {5, 6} <= set(cuts(9, 3).tolist())  # two rows and one
    assert all(0 <= at < n for n in (1, 2, 9) for at in cuts(n, 1).tolist())


def test_heavy_tail_has_both_signs_and_outliers() -> None:
    x = torch.rand(100_000)
    change_inputs(x, "heavy_tail", 0, torch.Generator().manual_seed(0))
    assert bool((x < 0).any()) and float(x.abs().max()) > 100 * float(x.abs().median())


@pytest.mark.parametrize("shape", [(2, 8), (40, 3, 5)])
def test_some_of_a_heavy_batch_is_far_below_zero_everywhere(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    change_inputs(x, "heavy_tail", 0, torch.Generator().manual_seed(0))
    highest = x.flatten(1).amax(1)
    n_sunk = int((highest < -SINK_DEPTH).sum())
    assert n_sunk == max(shape[0] // 10, 1)


def test_heavy_tails_stand_at_the_ends_of_some_rows() -> None:
    x = torch.rand(200, 10)
    change_inputs(x, "heavy_tail", 0, torch.Generator().manual_seed(0))
    for place in (0, -1):
        assert 5 <= int((x.select(-1, place) >= 300).sum()) <= 60


def test_an_offset_leaves_next_to_nothing_above_zero() -> None:
    x = torch.randn(100_000)
    change_inputs(x, "offset", 0, torch.Generator())
    assert float((x > 0).float().mean()) < 1e-3 and abs(float(x.mean()) + 4) < 0.1


def test_coarse_values_tie_and_touch_zero_from_both_sides() -> None:
    x = torch.randn(10_000)
    change_inputs(x, "coarse", 0, torch.Generator())
    assert len(x.unique()) < 40
    zeros = x[x == 0]
    assert bool(zeros.signbit().any()) and not bool(zeros.signbit().all())


def test_changed_state_keeps_variances_positive_and_masks_in_place() -> None:
    generator = torch.Generator().manual_seed(0)
    variance, mean, mask, scale = torch.ones(50), torch.zeros(50), torch.ones(8, 8).tril(), torch.ones(50)
    for x in (variance, mean, mask):
        change_state(x, False, "signed", generator)
    change_state(scale, True, "signed", generator)
    assert bool((variance > 0).all()) and float(variance.std()) > 0.1
    assert float(mean.abs().max()) > 0.1
    assert bool((mask.triu(1) == 0).all()) and bool((mask.tril().diagonal() != 0).all())
    assert bool((scale < 0).any()) and bool((scale > 0).any())


def test_a_nudge_moves_every_element_by_about_a_unit_in_its_last_place() -> None:
    x = torch.randn(100, 30).t()
    before = x.clone()
    nudge(x, torch.Generator().manual_seed(0))
    units = ((x - before).double() / before.double().abs() * 2**23).abs()
    assert bool(((units > 0.4) & (units < 1.6)).all())
    assert bool((x.abs() > before.abs()).any()) and bool((x.abs() < before.abs()).any())
