"""Samples in which most is ordinary, redrawn masks and labels, changed weights; what references accept."""

import json
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.policy import Nonfinite
from kernelwright.referee.host import acceptance
from kernelwright.referee.host.acceptance import Asking, Questions, Run, Values
from kernelwright.referee.host.change import (
    ALL_NONFINITE,
    NAN,
    REGIONS,
    AcceptedInputs,
    as_float,
    change_sample,
    put_nonfinite,
)
from kernelwright.referee.host.input_distributions import permute
from kernelwright.referee.host.main import ACCEPTED
from kernelwright.referee.host.odd_rows import ANY, KINDS, Keeping, Oddness, kept, make_odd
from kernelwright.referee.host.redrawn import (
    EMPTY,
    EQUAL,
    FULL,
    LEAST_BITS,
    PADDED,
    RANDOM,
    SHIFTED,
    SHUFFLED,
    STYLES,
    TRADED,
    UNEVEN,
    WIDE,
    put_special,
    redraw_integers,
    redraw_mask,
)
from kernelwright.referee.host.renewing import Way
from kernelwright.referee.host.weight_draws import change_state
from kernelwright.referee.worker.tensors import compact


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(max_examples=60)
@given(
    family=st.sampled_from(["odd_rows", "few_odd_rows", "odd_elements", "mixed"]),
    shape=st.lists(st.integers(0, 9), max_size=4),
    keeping=st.sampled_from(list(Keeping)),
    seed=st.integers(0, 2**31),
)
def test_odd_values_are_finite_repeat_under_their_seed_and_keep_what_they_must(
    family: str, shape: list[int], keeping: Keeping, seed: int
) -> None:
    drawn = torch.rand(shape, generator=generator(1))
    oddness = Oddness(dict.fromkeys(KINDS, keeping), 60)
    one, other = drawn.clone(), drawn.clone()
    for x in (one, other):
        make_odd(x, family, oddness, generator(seed))
    assert bool(torch.isfinite(one).all()) and torch.equal(one, other)
    if keeping is not Keeping.NOTHING and drawn.numel():
        assert float(one.min()) >= 0
    if keeping is Keeping.RANGE and drawn.numel():
        assert float(one.max()) <= float(drawn.max())


@pytest.mark.parametrize(
    ("family", "least", "most"),
    [("odd_rows", 30, 64), ("few_odd_rows", 1, 64), ("odd_elements", 1, 4), ("mild_elements", 1, 4)],
)
def test_most_rows_stay_ordinary(family: str, least: int, most: int) -> None:
    for seed in range(8):
        x = torch.rand(256, 64, generator=generator(seed))
        drawn = x.clone()
        make_odd(x, family, ANY, generator(seed))
        rows, columns = (int((x != drawn).any(axis).sum()) for axis in (1, 0))
        assert min(rows, columns) <= most and max(rows, columns) >= least


def test_odd_rows_hold_zeros_large_constants_and_a_wide_range() -> None:
    x = torch.randn(512, 32, generator=generator())
    make_odd(x, "odd_rows", Oddness(dict.fromkeys(KINDS, Keeping.NOTHING), 60), generator())
    spread = x.amax(1) - x.amin(1)
    assert bool((x == 0).all(1).any())
    assert bool(((spread == 0) & (x[:, 0].abs() > 400)).any())
    assert bool(((x != 0).sum(1) == 1).any())
    assert float(x.abs().max()) > 1e12


@pytest.mark.parametrize("variant", REGIONS)
def test_a_region_far_from_zero_shares_its_places_on_some_axes(variant: int) -> None:
    shared = REGIONS[variant]
    x = torch.randn(6, 8, 9, 10, generator=generator())
    make_odd(x, "odd_rows", ANY, generator(), shared=shared)
    others = tuple(axis for axis in range(4) if axis not in shared)
    is_narrow = (x.abs().amin(others) > 500) & (x.abs().amax(others) < 20000) & (x.std(others) < 2)
    assert 1 <= int(is_narrow.sum()) < is_narrow.numel() / 8 + 1


@pytest.mark.parametrize("n_rows", [20, 512])
def test_mild_rows_hold_zeros_within_the_range_as_drawn_however_few_there_are(n_rows: int) -> None:
    x = torch.randn(n_rows, 32, generator=generator())
    drawn = x.clone()
    make_odd(x, "mild_rows", Oddness(dict.fromkeys(KINDS, Keeping.NOTHING), 60), generator())
    assert bool((x == 0).all(1).any())
    assert float(x.max()) <= float(drawn.max()) and float(x.min()) >= float(drawn.min())


def test_mild_elements_break_zeros_within_the_range_as_drawn() -> None:
    x = torch.rand(256, 256, generator=generator()).tril()
    drawn = x.clone()
    make_odd(x, "mild_elements", Oddness(dict.fromkeys(KINDS, Keeping.NOTHING), 60), generator())
    assert bool((x.triu(1) != 0).any())
    assert float(x.max()) <= float(drawn.max()) and float(x.min()) >= float(drawn.min())


@pytest.mark.parametrize("shape", [(64, 32), (7,), ()])
def test_inputs_that_are_alike_differ_little_and_some_rows_not_at_all(shape: tuple[int, ...]) -> None:
    x, y, z = (torch.randn(shape, generator=generator(seed)) for seed in range(3))
    other = torch.randn(3, 3, generator=generator())
    before = x.clone(), other.clone()
    inputs = [x, torch.arange(3), other, y, z]
    change_sample(inputs, "alike", 0, Keeping.NOTHING, generator(), AcceptedInputs())
    assert torch.equal(x, before[0]) and torch.equal(other, before[1])
    assert torch.allclose(y, x, rtol=1e-3, atol=0) and torch.allclose(z, x, rtol=1e-3, atol=0)
    if x.ndim == 2:
        is_equal = (x == y).all(1)
        assert bool(is_equal.any()) and not bool(is_equal.all())


@pytest.mark.parametrize("family", ["scaled", "negated", "sparse_spikes", "sorted", "odd_rows", "mild_rows"])
def test_complex_inputs_are_changed_like_others(family: str) -> None:
    x = torch.randn(64, 32, dtype=torch.complex64, generator=generator())
    drawn = x.clone()
    change_sample([as_float(x)], family, 0, Keeping.NOTHING, generator(), AcceptedInputs())
    assert not torch.equal(x, drawn)
    assert as_float(x).shape == (64, 64) and as_float(x.t()).shape == (32, 64, 2)


def test_transposed_inputs_are_changed_where_they_are() -> None:
    x = torch.rand(64, 32).t()
    make_odd(x, "mixed", ANY, generator())
    assert x.stride() == (1, 32) and not bool(((x >= 0) & (x <= 1)).all())


def test_what_is_kept_of_a_positive_input() -> None:
    drawn, odd = torch.tensor([0.5, 2.0]), torch.tensor([-1000.0, float("inf")])
    assert kept(odd, Keeping.SIGN, drawn)[0] == 1000
    assert float(kept(odd, Keeping.SIZE, drawn).max()) == 8
    assert kept(odd, Keeping.RANGE, drawn).tolist() == [0.5, 2.0]


@given(count=st.integers(0, 3000))
@settings(max_examples=20)
def test_permuted_values_are_the_same_values(count: int) -> None:
    x = torch.arange(float(count))
    permute(x, generator())
    assert torch.equal(x.sort().values, torch.arange(float(count)))
    assert count < 10 or not torch.equal(x, torch.arange(float(count)))


@settings(max_examples=40)
@given(
    shape=st.lists(st.integers(2, 6), min_size=1, max_size=4),
    style=st.integers(0, 1),
    seed=st.integers(0, 99),
)
def test_every_row_of_a_redrawn_mask_keeps_both_values(shape: list[int], style: int, seed: int) -> None:
    mask = torch.ones(shape, dtype=torch.bool)
    mask[..., 1:] = False
    redraw_mask(mask, style, generator(seed))
    assert bool(mask.any(-1).all()) and not bool(mask.all(-1).any())


def test_a_mask_of_floats_keeps_its_two_values() -> None:
    mask = torch.zeros(6, 6).masked_fill_(torch.ones(6, 6).triu(1).bool(), -1e9)
    redraw_mask(mask, 1, generator())
    assert set(mask.flatten().tolist()) == {0.0, torch.tensor(-1e9).item()}


@settings(max_examples=40)
@given(values=st.lists(st.integers(-5, 9), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_redrawn_integers_keep_range_order_and_distinctness(values: list[int], seed: int) -> None:
    x = torch.tensor(values)
    redraw_integers(x, generator(seed))
    least = min(values) if len(set(values)) > 1 else min(values[0], 1)
    most = max(values) if any(values) else 1
    assert int(x.min()) >= least and int(x.max()) <= most
    if len(values) > 2 and sorted(values) == values and len(set(values)) > 1:
        assert x.tolist() == sorted(x.tolist())
    if len(set(values)) == len(values) > 1:
        assert len(set(x.tolist())) == len(values)


def test_uneven_masks_have_rows_of_one_value_and_equal_ones_nothing_else() -> None:
    mask = torch.rand(64, 8, generator=generator()) > 0.5
    redraw_mask(mask, UNEVEN, generator())
    assert 4 < int(mask.all(1).sum()) < 32 and 4 < int((~mask).all(1).sum()) < 32
    redraw_mask(mask, EQUAL, generator())
    assert bool((mask == mask[0, 0]).all())


def test_uneven_labels_leave_classes_empty() -> None:
    labels = torch.randint(16, (512,), generator=generator())
    redraw_integers(labels, generator(), UNEVEN)
    assert torch.bincount(labels, minlength=16).max() > 128
    redraw_integers(labels, generator(), EQUAL)
    assert len(set(labels.tolist())) == 1


def test_uneven_offsets_keep_their_ends_and_leave_segments_empty() -> None:
    offsets = torch.arange(0, 257, 8)
    redraw_integers(offsets, generator(), UNEVEN, may_repeat=True)
    assert offsets[0] == 0 and offsets[-1] == 256
    assert bool((offsets.diff() >= 0).all()) and bool((offsets.diff() == 0).any())


@pytest.mark.parametrize(("may_repeat", "is_permutation"), [(True, False), (False, True)])
def test_a_permutation_repeats_only_where_it_may(may_repeat: bool, is_permutation: bool) -> None:
    order = torch.randperm(64, generator=generator())
    redraw_integers(order, generator(), UNEVEN, may_repeat=may_repeat)
    assert (len(set(order.tolist())) == 64) is is_permutation


ROWS = {
    "spans": lambda: torch.randint(0, 50, (40, 2), generator=generator(1)).sort(1).values,
    "offsets": lambda: torch.cat(
        [
            torch.zeros(8, 1),
            torch.rand(8, 5, generator=generator(1)).mul(30).sort(1).values,
            torch.full((8, 1), 30),
        ],
        1,
    ).long(),
    "permutations": lambda: torch.stack([torch.randperm(12, generator=generator(n)) for n in range(9)]),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("style", STYLES)
def test_rows_keep_their_order_and_what_occurs_once_in_each(name: str, style: int) -> None:
    drawn = ROWS[name]()
    moved = drawn.clone()
    redraw_integers(moved, generator(20 + style), style, may_repeat=name != "permutations")
    assert not torch.equal(moved, drawn) and int(moved.min()) >= 0 and int(moved.max()) <= int(drawn.max())
    if name == "permutations":
        assert torch.equal(moved.sort(1).values, drawn.sort(1).values)
    else:
        assert bool((moved.diff(dim=1) >= 0).all())
    if name == "offsets":
        assert torch.equal(moved[:, [0, -1]], drawn[:, [0, -1]])


def test_random_rows_are_no_permutations_and_no_spans() -> None:
    labels = torch.randint(50000, (64, 8), generator=generator(1))
    redraw_integers(labels, generator(2), EQUAL, may_repeat=True)
    assert len(set(labels.flatten().tolist())) == 1


@given(counts=st.lists(st.integers(0, 40), min_size=2, max_size=9), seed=st.integers(0, 99))
def test_counts_trade_units_and_keep_their_sum(counts: list[int], seed: int) -> None:
    moved = torch.tensor(counts)
    redraw_integers(moved, generator(seed), TRADED)
    assert int(moved.min()) >= 0 and int(moved.sum()) == sum(counts)


def test_counts_that_must_add_up_are_traded() -> None:
    x, counts = torch.randn(64, 4), torch.full((4,), 16)
    accepted = ask(
        lambda x, n: torch.cat([y * i for i, y in enumerate(torch.split(x, n.tolist()))]), x, counts
    )
    assert accepted.redrawn == {1: {TRADED}}
    moved = [x, counts.clone()]
    change_sample(moved, "odd_rows", 0, Keeping.NOTHING, generator(), accepted)
    assert int(moved[1].sum()) == 64 and len(set(moved[1].tolist())) > 1


def test_lengths_that_are_all_full_are_also_short() -> None:
    for style, least in ((RANDOM, 1), (UNEVEN, 0)):
        lengths = torch.full((64,), 9)
        redraw_integers(lengths, generator(), style)
        assert least <= int(lengths.min()) < 9


def test_some_labels_are_special_and_some_are_not() -> None:
    x = torch.arange(40)
    put_special(x, [-100], generator())
    assert 1 <= int((x == -100).sum()) < 40


def test_nan_and_infinities_stand_in_rows_of_their_own() -> None:
    x = torch.rand(8, 5)
    put_nonfinite(x, ALL_NONFINITE, generator())
    assert (int(x.isnan().sum()), int((x == float("inf")).sum()), int((x == -float("inf")).sum())) == (
        1,
        1,
        1,
    )
    assert int((~x.isfinite()).any(1).sum()) == 3


def test_rows_begin_with_infinities_or_with_what_stands_in_their_place() -> None:
    for instead in (None, 7.0):
        x = torch.rand(32, 5)
        put_nonfinite(x, (), generator(), is_masked=True, instead=instead)
        is_masked = x == (-torch.inf if instead is None else instead)
        assert int(is_masked.any(1).sum()) == 4 and not bool(is_masked.all(1).any())
        assert bool(is_masked[is_masked.any(1), 0].all())


def test_weights_without_structure_have_the_same_size() -> None:
    identity, scale = torch.eye(64), torch.ones(64)
    change_state(identity, True, "redrawn", generator())
    change_state(scale, True, "redrawn", generator())
    assert int((identity == 0).sum()) == 0 and 0.05 < float(identity.std()) < 0.3
    assert bool((scale < 0).any()) and bool((scale > 0).any())


def test_positive_weights_can_be_kept_positive() -> None:
    scale = torch.ones(64)
    change_state(scale, True, "redrawn_positive", generator())
    assert bool((scale > 0).all()) and float(scale.std()) > 0.1


@pytest.mark.parametrize("is_parameter", [True, False])
def test_one_element_is_touched_and_masks_keep_their_zeros(is_parameter: bool) -> None:
    x = torch.ones(8, 8).tril()
    before = x.clone()
    change_state(x, is_parameter, "touched", generator(5))
    assert int((x != before).sum()) <= 1
    assert is_parameter or bool((x.triu(1) == 0).all())


def test_a_compact_view_has_every_element_once() -> None:
    column = torch.rand(5, 1)
    assert compact(column.expand(5, 7)).shape == (5, 1)
    assert compact(torch.rand(6, 6)[:, ::2]).shape == (6, 3)
    assert compact(torch.arange(5.0).as_strided((4, 2), (1, 1))).tolist() == [0, 1, 2, 3, 4]


# --- what a reference accepts


def ask(
    function: object, *values: torch.Tensor, nonfinite: Nonfinite = Nonfinite.AUTO,
    drawn_again: Values | None = None,
) -> AcceptedInputs:  # fmt: skip
    assert callable(function)

    def raw(tensors: Values) -> Values | None:
        try:
            return [function(*tensors)]
        except (IndexError, RuntimeError):
            return None

    def finite(run: Run) -> Run:
        def call(tensors: Values) -> Values | None:
            outputs = run(tensors)
            return outputs if outputs and all(bool(x.isfinite().all()) for x in outputs) else None

        return call

    def double(tensors: Values) -> Values | None:
        return raw([x.double() if x.is_floating_point() else x for x in tensors])

    def told(tensors: Values, tell: Callable[[Values], None]) -> Values | None:
        tell(tensors)
        return raw(tensors)

    questions = Questions(
        finite(raw), raw, told, finite(double), list(values), seed=3, drawn_again=drawn_again
    )
    return Asking(questions).answer(nonfinite=nonfinite)


def test_what_one_host_finds_out_another_takes_over() -> None:
    found = ask(lambda x, y: x + y.exp(), torch.randn(4, 8), torch.rand(4, 8))
    assert found.odd and found.nonfinite
    told = ACCEPTED.validate_python(json.loads(json.dumps(ACCEPTED.dump_python(found, mode="json"))))
    assert repr(told) == repr(found)  # NaN is not equal to itself


def test_a_reference_that_takes_everything_is_given_everything() -> None:
    accepted = ask(torch.relu, torch.rand(64, 16))
    assert accepted.odd[0].kinds.keys() == KINDS.keys()
    assert set(accepted.odd[0].kinds.values()) == {Keeping.NOTHING}
    assert accepted.nonfinite.keys() == {0} and not accepted.skipped


@pytest.mark.parametrize(
    ("reference", "tried", "is_masked"),
    [
        (lambda x: torch.softmax(x, -1), {"nan", "-inf"}, True),
        (torch.sigmoid, {"nan", "inf", "-inf"}, True),
        (lambda x: torch.where(torch.isfinite(x), x, 0.0).mean(-1), {"nan", "inf", "-inf"}, True),
        (lambda x: torch.where(x == x, x, 0.0).mean(-1), {"nan"}, False),
        (lambda x: torch.logsumexp(x, -1), {"nan", "-inf"}, True),
        (lambda x: x.sum(), set(), False),
        (lambda x: x[:, 3] - torch.logsumexp(x, -1).sum(), set(), False),
        (lambda x: x.argmax(-1), set(), False),
    ],
)
def test_what_leaves_a_reference_finite_is_tried(reference: Run, tried: set[str], is_masked: bool) -> None:
    accepted = ask(reference, torch.randn(64, 16))
    assert set(map(str, accepted.nonfinite.get(0, ()))) == tried
    assert (0 in accepted.masked) is is_masked


def test_a_mask_is_asked_for_however_long_a_call_takes() -> None:
    def scan(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        return x * mask

    accepted = ask(scan, torch.randn(9, 4), torch.ones(9, 4, dtype=torch.bool))
    assert PADDED in accepted.redrawn[1]


def test_a_logarithm_keeps_the_sign_and_takes_no_zeros() -> None:
    accepted = ask(torch.log, torch.rand(64, 16) + 0.1)
    kinds = accepted.odd[0].kinds
    assert kinds["negated"] is Keeping.SIGN and kinds["zero"] > Keeping.SIGN


def test_exponentials_get_values_of_a_size_that_they_take() -> None:
    accepted = ask(lambda x: torch.exp(x) / torch.exp(x).sum(), torch.rand(64, 16))
    assert accepted.odd[0].kinds["large_constant"] > Keeping.SIGN


def test_squares_have_a_narrower_range_than_their_root() -> None:
    wide = ask(torch.hypot, torch.rand(64, 16), torch.rand(64, 16)).odd[0].exponent
    narrow = ask(lambda x, y: (x * x + y * y).sqrt(), torch.rand(64, 16), torch.rand(64, 16)).odd[0].exponent
    assert wide >= 64 > narrow > 0


def test_labels_take_the_index_that_a_loss_ignores() -> None:
    scores, labels = torch.randn(32, 7), torch.randint(7, (32,))
    accepted = ask(torch.nn.functional.cross_entropy, scores, labels)
    assert accepted.special == {1: [-100]} and 1 in accepted.redrawn


@pytest.mark.parametrize(
    ("reference", "special"),
    [
        (lambda x, at: x * (at[1:] != 3)[:, None], {1: [3]}),
        (lambda x, at: x * (at.flip(0)[1:] == torch.tensor(3))[:, None], {1: [3]}),
        (lambda x, at: x * (torch.cat([at, at])[:8] < 2)[:, None], {1: [1]}),
        (lambda x, at: x * at.clamp(min=1)[1:, None], {1: [0]}),
        (lambda x, at: x * (at[1:] + 1 != 3)[:, None], {1: [2]}),
        (lambda x, at: x * (4 - 2 * at[1:] != -2)[:, None], {1: [3]}),
        (lambda x, at: x * (2 * at[1:] != 3)[:, None], {}),
        (lambda x, at: x * ~torch.isin(at[1:], torch.tensor([3, 5]))[:, None], {1: [3, 5]}),
        (lambda x, at: x * (torch.tensor([3]) != at[1:])[:, None], {1: [3]}),
        (lambda x, at: x.where(x != -1.0, 0.0), {0: [-1.0]}),
        (lambda x, at: x.where(x > 0.1, 0.0), {0: [float(np.float32(0.2))]}),  # float32 does not hold 0.1
        (lambda x, at: x.where(x.abs() != 1.0, 0.0), {0: [-1.0, 1.0]}),
        (lambda x, at: x.where(x.abs() < 2.0**99, 0.0), {0: [-(2.0**100), -(2.0**99), 2.0**99, 2.0**100]}),
    ],
)
def test_values_that_are_treated_apart_are_followed(reference: object, special: object) -> None:
    assert ask(reference, torch.rand(8, 3) + 5, torch.full((9,), 9)).special == special


def test_whole_rows_are_special_where_that_is_accepted() -> None:
    x, at = torch.randn(64, 8), torch.randint(1, 9, (64, 8))

    def mean(x: torch.Tensor, at: torch.Tensor, least: int) -> torch.Tensor:
        kept = at != 0
        return (x * kept).sum(1) / kept.sum(1).clamp(min=least)

    safe, unsafe = (ask(lambda x, at, n=n: mean(x, at, n), x, at) for n in (1, 0))
    assert (safe.special_rows, unsafe.special_rows) == ({1}, set()) and safe.special == unsafe.special
    moved = [x.clone(), at.clone()]
    change_sample(moved, "mild_rows", 0, Keeping.NOTHING, generator(), safe)
    assert 0 < int((moved[1] == 0).all(1).sum()) < 48


def test_labels_hit_and_sequences_agree() -> None:
    scores, labels = torch.randn(64, 100), torch.randint(100, (64,))
    accepted = ask(lambda x, at: (x.argmax(-1) == at).float(), scores, labels)
    moved = [scores.clone(), labels.clone()]
    change_sample(moved, "alike", 0, Keeping.NOTHING, generator(), accepted)
    is_among = (moved[0].topk(32).indices == moved[1][:, None]).any(-1)
    assert int((moved[0].argmax(-1) == moved[1]).sum()) > 3 and int(is_among.sum()) > 36
    two = [torch.randint(999, (8, 16)) for _ in range(2)]
    accepted = ask(lambda a, b: (a == b).float(), *two)
    change_sample(two, "alike", 0, Keeping.NOTHING, generator(), accepted)
    assert 30 < int((two[0] == two[1]).sum()) < 98
    items, others = torch.randint(1 << 40, (20,)), torch.randint(1 << 40, (90,))
    accepted = ask(lambda a, b: (a[:, None] == b).float(), items, others)
    change_sample([items, others], "alike", 0, Keeping.NOTHING, generator(), accepted)
    assert int((items[:, None] == others).any(1).sum()) > 3


def test_an_integer_without_axes_agrees_with_none_that_is_not_there() -> None:
    inputs = [torch.randn(4, 3), torch.randn(4, 3), torch.tensor(5)]
    accepted = AcceptedInputs(redrawn={2: frozenset({RANDOM})}, may_repeat=frozenset({2}))
    change_sample(inputs, "alike", 0, Keeping.NOTHING, generator(), accepted)
    assert int(inputs[2]) == 5
    change_sample([*inputs, torch.full((3,), 5)], "alike", 0, Keeping.NOTHING, generator(), accepted)


def test_rows_of_another_number_are_alike_too() -> None:
    few, many = torch.randn(5, 8), torch.randn(12, 8)
    change_sample([few, many], "alike", 0, Keeping.NOTHING, generator(), AcceptedInputs())
    assert torch.allclose(many, few[torch.arange(12) % 5], rtol=1e-3)
    assert 0 < int((many == few[torch.arange(12) % 5]).all(1).sum()) < 12


def test_vectors_along_every_middle_axis_are_zero() -> None:
    for seed in range(9):
        x = torch.randn(4, 6, 8, 8, generator=generator(seed))
        moved = [x]
        change_sample(moved, "mild_rows", 1, Keeping.NOTHING, generator(seed), AcceptedInputs())
        for axis in (1, 2):
            assert bool((x == 0).all(axis).any())


def test_rows_are_like_codes_where_no_other_input_has_such_rows() -> None:
    x, codes = torch.randn(64, 8), torch.randn(5, 8)
    change_sample([x], "alike", 0, Keeping.NOTHING, generator(), AcceptedInputs(), [torch.randn(5, 9), codes])
    nearest = torch.cdist(x, codes).min(1).values
    assert 16 < int((nearest < 1e-3).sum()) < 48 and 5 < int((x[:, None] == codes).all(-1).any(1).sum()) < 30


def test_buffers_have_zeros_too_but_masks_do_not() -> None:
    counts, mask = torch.rand(64) + 1, torch.ones(8, 8).tril()
    for buffer in (counts, mask):
        change_state(buffer, False, "odd_rows with buffers", generator())
    assert int((counts == 0).sum()) == 1 and int((mask == 0).sum()) == 28


def test_slices_of_weights_are_zero_constant_tiny_and_the_same() -> None:
    weight = torch.randn(64, 8, generator=generator())
    change_state(weight, True, "odd_rows", generator(3))
    sizes = weight.abs().amax(1)
    assert int((sizes == 0).sum()) >= 3 and int(((sizes > 0) & (sizes < 0.01)).sum()) >= 3
    assert int((weight.diff(dim=1) == 0).all(1).sum()) >= 7
    assert len({tuple(row) for row in weight.tolist()}) < 58


def test_values_that_a_reference_compares_with_are_tried() -> None:
    def padded(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return torch.where((tokens == 0)[:, None], torch.zeros(()), x)

    accepted = ask(padded, torch.randn(8, 3), torch.arange(1, 9))
    assert accepted.special == {1: [0]}


@pytest.mark.parametrize(
    ("search", "ordered"),
    [
        (lambda edges, x: torch.searchsorted(edges, x), {0}),
        (lambda edges, x: torch.bucketize(x, edges), {0}),
        (lambda edges, x: x[:, :9] * edges, set()),
    ],
)
def test_what_values_are_sought_in_stays_sorted(search: object, ordered: set[int]) -> None:
    edges, x = torch.linspace(-1, 1, 9), torch.randn(8, 32)
    accepted = ask(search, edges.clone(), x)
    assert accepted.ordered == ordered
    for family in ("negated", "sorted", "odd_rows"):
        moved = [edges.clone(), x.clone()]
        change_sample(moved, family, 0, Keeping.NOTHING, generator(3), accepted)
        assert bool((moved[0].diff() >= 0).all()) or not ordered


@pytest.mark.parametrize("padding", [0, None])
def test_indices_take_the_padding_index_of_a_bag(padding: int | None) -> None:
    def bags(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(index, weight, mode="mean", padding_idx=padding)

    index = torch.randint(1, 50, (8, 5), generator=generator())
    accepted = ask(bags, index, torch.randn(50, 4, generator=generator(1)))
    assert accepted.special == ({} if padding is None else {0: [padding]})


def test_an_embedding_gets_no_label_that_it_lacks() -> None:
    table = torch.randn(10, 4)
    accepted = ask(lambda at: torch.nn.functional.embedding(at, table), torch.randint(10, (6,)))
    assert not accepted.special and accepted.redrawn == {0: frozenset(STYLES)}


def test_a_mean_over_a_mask_is_asked_about_empty_rows_and_attention_is_not() -> None:
    x, mask = torch.randn(32, 8), torch.rand(32, 8) > 0.5
    mean = ask(lambda x, m: (x * m).sum(1) / m.sum(1).clamp(min=1), x, mask)
    unsafe = ask(lambda x, m: (x * m).sum(1) / m.sum(1), x, mask)
    attention = ask(
        lambda q, m: torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=m),
        torch.randn(1, 2, 8, 8), torch.ones(8, 8).tril().bool(),
    )  # fmt: skip
    assert mean.redrawn[1] == set(STYLES)
    assert unsafe.redrawn[1] == attention.redrawn[1] == {PADDED, RANDOM, FULL}


@pytest.mark.parametrize(("is_kept_where", "taken"), [(True, FULL), (False, EMPTY)])
def test_attention_gets_masks_that_hide_nothing_and_none_that_hides_a_row(
    is_kept_where: bool, taken: int
) -> None:
    mask = torch.ones(8, 8).tril().bool() == is_kept_where

    def attend(q: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=m == is_kept_where)

    assert ask(attend, torch.randn(1, 2, 8, 8), mask).redrawn[1] == {PADDED, RANDOM, taken}


def test_full_and_empty_rows_of_masks_are_those_of_either_value() -> None:
    flags = torch.rand(64, 8, generator=generator()) > 0.5
    floats = torch.where(flags, 0.0, -1e9)
    for style, low, high in ((FULL, 0.0, True), (EMPTY, -1e9, False)):
        one, other = flags.clone(), floats.clone()
        redraw_mask(one, style, generator())
        redraw_mask(other, style, generator(), share=1.0)
        assert 4 < int((one == high).all(1).sum()) < 40
        assert bool((other == low).all())


@pytest.mark.parametrize(
    ("reference", "x", "is_wide"),
    [
        (lambda x: x @ x.t(), torch.randint(-9, 9, (4, 4)), True),
        (lambda x: x.float() * 0.5, torch.randint(9, (4, 4), dtype=torch.int32), True),
        (lambda x: torch.nn.functional.one_hot(x, 9), torch.randint(9, (4,)), False),
        (lambda x: (x[:, None] == torch.arange(9)).float(), torch.randint(9, (4,)), False),
        (lambda x: torch.ones(9)[x], torch.randint(9, (4,)), False),
        (lambda x: x.clamp(min=0).float() * 0.5, torch.randint(9, (4, 4)), True),
        (lambda x: 1 << x, torch.randint(9, (4,)), False),
    ],
)
def test_integers_leave_their_range_only_where_they_are_numbers(
    reference: object, x: torch.Tensor, is_wide: bool
) -> None:
    accepted = ask(reference, x)
    assert (WIDE in accepted.redrawn[0]) is is_wide
    moved = [x.clone()]
    change_sample(moved, "odd_elements", 0, Keeping.NOTHING, generator(), accepted)
    assert (int(moved[0].abs().max()) > 100) is is_wide


@pytest.mark.parametrize(
    ("reference", "dtype", "bits"),
    [
        (lambda a, b, w: a + b, torch.int64, 62),
        (lambda a, b, w: (a + b + a).clamp(min=0), torch.int64, 61),
        (lambda a, b, w: a - 2 * b, torch.int64, 52),  # products and sums stay exact in float64
        (lambda a, b, w: a * b, torch.int64, 26),
        (lambda a, b, w: a @ b.t(), torch.int64, 25),
        (lambda a, b, w: (a + b).sum(), torch.int64, 47),
        (lambda a, b, w: a.int() + b.int(), torch.int64, 30),
        (lambda a, b, w: a * b, torch.int32, 15),
        (lambda a, b, w: a * w, torch.int64, 62),
        (lambda a, b, w: (a * w).sin(), torch.int64, 17),  # float32 knows no phase beyond
    ],
)
def test_integers_get_as_many_bits_as_are_exact(reference: object, dtype: torch.dtype, bits: int) -> None:
    a, b = (torch.randint(-9, 9, (8, 8), dtype=dtype) for _ in range(2))
    accepted = ask(reference, a, b, torch.randn(8, 8))
    assert abs(accepted.bits - bits) <= 2
    for variant, least in ((0, accepted.bits - 2), (1, LEAST_BITS - 2)):
        moved = [a.clone(), b.clone(), torch.randn(8, 8)]
        change_sample(moved, "odd_elements", variant, Keeping.NOTHING, generator(), accepted)
        assert int(moved[0].abs().max()) > 1 << min(least, torch.iinfo(dtype).bits - 3)


@given(dtype=st.sampled_from([torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]))
def test_wide_integers_fit_their_type(dtype: torch.dtype) -> None:
    x = torch.zeros(256, dtype=dtype)
    redraw_integers(x, generator(), WIDE)
    assert int(x.max()) > 100 and (dtype is torch.uint8 or int(x.min()) < -100)


def test_a_single_flag_is_also_the_other_one() -> None:
    flag = torch.tensor(True)
    accepted = ask(lambda x, flag: torch.where(flag, x.tanh(), x), torch.randn(4, 8), flag)
    moved = [torch.randn(4, 8), flag.clone()]
    change_sample(moved, "odd_rows", 0, Keeping.NOTHING, generator(), accepted)
    assert not bool(moved[1])


@pytest.mark.parametrize(("n_kinds", "seen"), [(2, {0, 1}), (1, {0})])
def test_integers_that_are_all_zero_are_also_one_where_that_is_accepted(n_kinds: int, seen: set[int]) -> None:
    table, kinds = torch.randn(n_kinds, 4), torch.zeros(4, 8, dtype=torch.int64)
    accepted = ask(lambda at: torch.nn.functional.embedding(at, table), kinds)
    moved = [kinds.clone()]
    change_sample(moved, "odd_rows", 0, Keeping.NOTHING, generator(), accepted)
    assert set(moved[0].flatten().tolist()) == seen


def test_integers_of_rows_of_zero_and_one_are_masks() -> None:
    mask = (torch.arange(8) < torch.randint(1, 8, (64, 1), generator=generator())).long()
    accepted = ask(lambda x, m: (x * m).sum(1) / m.sum(1).clamp(min=1), torch.randn(64, 8), mask)
    moved = [torch.randn(64, 8), mask.clone()]
    change_sample(moved, "few_odd_rows", 0, Keeping.NOTHING, generator(), accepted)
    assert bool((moved[1] == 0).all(1).any()) and bool((moved[1] == 1).all(1).any())


def test_positions_are_shifted_and_shuffled_where_the_reference_takes_them() -> None:
    table, x = torch.randn(8, 4), torch.arange(8)
    rotary = ask(lambda at: torch.outer(at.float(), torch.ones(4)).sin(), x)
    looked_up = ask(lambda at: torch.nn.functional.embedding(at, table), x)
    long_table = ask(lambda at: torch.nn.functional.embedding(at, table.repeat(9, 1)), x)
    assert rotary.redrawn == {0: {SHIFTED}}
    assert looked_up.redrawn == {0: {SHUFFLED}}
    assert long_table.redrawn == {0: {SHIFTED, SHUFFLED}}
    for accepted in (rotary, looked_up):
        moved = [x.clone()]
        change_sample(moved, "odd_rows", 0, Keeping.NOTHING, generator(), accepted)
        assert not torch.equal(moved[0], x)


def test_inputs_that_are_always_drawn_alike_are_renewed_and_no_others() -> None:
    times, at, zeros = torch.linspace(0, 1, 8), torch.arange(8), torch.zeros(8)
    values = [torch.randn(32, 8), times, at, zeros, torch.ones(8).bool()]

    def call(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return x + sum(one.float() for one in others)

    accepted = ask(call, *values, drawn_again=[torch.randn(32, 8), *values[1:]])
    assert accepted.renewed.keys() == {1, 2, 3}
    new = [value.clone() for value in values]
    change_sample(new, "renewed", 0, Keeping.NOTHING, generator(), accepted)
    assert [torch.equal(one, other) for one, other in zip(new, values, strict=True)] == [
        True, False, False, False, True,
    ]  # fmt: skip
    assert bool((new[1].diff() > 0).all()) and float(new[1].max()) <= 1.0
    assert bool((new[2].diff() == 1).all())
    refused = ask(lambda x, t: (x + t).where(t[-1:] == 1, torch.nan), *values[:2], drawn_again=values[:2])
    assert refused.renewed.keys() == {0} and "renewed input 1" in ", ".join(refused.skipped)


@pytest.mark.parametrize("length", [8, 12])
def test_positions_that_cannot_be_shifted_trade_places_and_hold_no_other_input_back(length: int) -> None:
    x, t, at, table = torch.randn(32, 8), torch.linspace(0, 1, 8), torch.arange(8), torch.randn(length)
    drawn_again = [torch.randn(32, 8), t, at]
    accepted = ask(lambda x, t, at: x + (t.sin() * table[:8])[at], x, t, at, drawn_again=drawn_again)
    assert {i: renewing.way for i, renewing in accepted.renewed.items()} == {1: Way.EACH, 2: Way.SWAPPED}
    new = [x.clone(), t.clone(), at.clone()]
    change_sample(new, "renewed", 0, Keeping.NOTHING, generator(), accepted)
    assert not torch.equal(new[1], t) and torch.equal(new[2].sort().values, at)
    assert int((new[2] != at).sum()) == 2
    kept = ask(lambda x, t, at: x + t / (at[0] == 0), x, t, at, drawn_again=drawn_again)
    assert kept.renewed.keys() == {1} and "renewed input 2" in ", ".join(kept.skipped)


def test_what_is_always_alike_is_asked_for_before_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "LEAST_S", -1.0)
    monkeypatch.setattr(acceptance, "LARGEST_SHARE", 0.0)
    t = torch.linspace(0, 1, 8)
    x, y = torch.randn(2, 32, 8)
    accepted = ask(lambda x, t: x + t.sin(), x, t, drawn_again=[y, t])
    assert accepted.renewed.keys() == {1} and not accepted.nonfinite


def test_indices_that_are_written_to_stay_apart() -> None:
    x, at = torch.randn(16, 3), torch.randperm(16)
    assert ask(lambda x, at: torch.zeros(16, 3).index_add(0, at, x), x, at).may_repeat
    assert not ask(lambda x, at: torch.zeros(16, 3).index_copy(0, at, x), x, at).may_repeat


@pytest.mark.parametrize(
    ("function", "tried"),
    [
        (torch.relu, {0: ALL_NONFINITE}),
        (lambda x: x.sum(-1), {0: ALL_NONFINITE}),
        (lambda x: (x @ torch.randn(16, 9)).sum(-1), {0: NAN}),
        (lambda x: torch.softmax(x, -1), {0: (*NAN, -torch.inf)}),
        (lambda x: x @ torch.ones(16, 3), {0: NAN}),
        (lambda x: x.cumsum(-1).flip(-1), {}),
        (lambda x: x.sum(), {}),
        (lambda x: x.argmax(-1), {}),
        (lambda x: torch.nan_to_num(x), {0: ALL_NONFINITE}),
        (lambda x: torch.nanmean(x, -1), {0: NAN}),
        (lambda x: x.where(x > 0, 0.0), {}),
        (lambda x: (x - x.mean(0)) * 2, {}),
    ],
)
def test_nan_is_plain_where_it_stays_in_its_row(
    function: object, tried: dict[int, tuple[float, ...]]
) -> None:
    assert str(ask(function, torch.rand(8, 16)).nonfinite) == str(tried)


def test_the_policy_decides_where_nan_is_tried() -> None:
    x = torch.rand(8, 16)
    assert ask(torch.sum, x, nonfinite=Nonfinite.SAME).nonfinite.keys() == {0}
    assert ask(torch.relu, x, nonfinite=Nonfinite.IGNORED).nonfinite == {}


def test_a_sample_changes_only_what_is_accepted() -> None:
    floats, flags = torch.rand(8, 8), torch.ones(8, 8, dtype=torch.bool).tril()
    before = flags.clone()
    change_sample([floats, flags], "odd_rows", 0, Keeping.NOTHING, generator(), AcceptedInputs())
    assert torch.equal(flags, before)
    change_sample(
        [floats, flags],
        "odd_rows",
        0,
        Keeping.NOTHING,
        generator(),
        AcceptedInputs(redrawn={1: frozenset({PADDED})}),
    )
    assert not torch.equal(flags, before)
