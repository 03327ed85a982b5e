"""Which samples a workload gets, and what its layout says about the arithmetic behind an output."""

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelwright.referee.checks.tolerance import decode
from kernelwright.referee.session.input_samples import (
    ACROSS,
    CHANGEABLE,
    FLAT_WEIGHTS,
    ODD_FAMILIES,
    TRADED,
    SampleKey,
    SampleLayout,
    plan_samples,
)
from kernelwright.referee.session.sample_maker import N_STEPS, change_one
from kernelwright.referee.session.shared_memory import ITEM_BYTES, SharedMemory


@pytest.mark.parametrize(
    ("shapes", "elements"),
    [
        ([(8192, 1024)], 8192),  # a softmax, either way round
        ([(5, 16, 29, 31)], 16 * 29 * 31),  # a batch norm has 5 * 29 * 31 of them, less than this
        ([(1, 1000)], 1000),
        ([(7,), (3, 4)], 7),
        ([()], 1),
        ([], 1),
    ],
)
def test_statistics_may_be_over_all_axes_but_one(shapes: list[tuple[int, ...]], elements: int) -> None:
    slots = tuple({"dtype": "float32", "shape": list(shape)} for shape in shapes)
    layout = SampleLayout(
        args=[], arg_slots=slots, args_bytes=0, init=[], state={}, parameters=frozenset(), state_bytes=0,
        is_train=False,
    )  # fmt: skip
    assert layout.longest_reduction == elements


def layout(*, has_weights: bool) -> SampleLayout:
    slot = {"dtype": "float32", "shape": [4, 4]}
    state = {"weight": slot} if has_weights else {}
    return SampleLayout(
        args=[], arg_slots=(slot,), args_bytes=0, init=[], state=state, parameters=frozenset(state),
        state_bytes=0, is_train=False,
    )  # fmt: skip


def test_a_slow_reference_gets_one_sample_that_holds_every_kind_of_odd_row() -> None:
    slow = plan_samples(layout(has_weights=True), n_timed=2, is_slow=True, n_alone=1)
    quick = plan_samples(layout(has_weights=True), n_timed=2, is_slow=False)
    assert [key.family for key in slow if key.family in ODD_FAMILIES] == ["mixed"]
    assert {key.state for key in slow} == {"constructed", "touched", "one element 1", "randomised"}
    assert len(slow) < len(quick) / 2


def test_frozen_weights_stay_and_nan_comes_last() -> None:
    keys = plan_samples(
        layout(has_weights=True), n_timed=2, is_slow=False, has_nonfinite=True, are_weights_frozen=True
    )
    assert {key.state for key in keys} == {"constructed"}
    assert keys[-1].family == "nonfinite"


def test_weights_take_turns_where_they_may_change() -> None:
    states = [key.state for key in plan_samples(layout(has_weights=True), n_timed=3, is_slow=False)]
    later = states[states.index("touched") :]
    assert all(one != other for one, other in itertools.pairwise(later))


def test_odd_samples_are_judged_row_by_row_and_loosely() -> None:
    slack = SampleKey("odd_rows").slack
    assert slack.is_by_row and slack.floor > 1 and not SampleKey("as_is").slack.is_by_row


@pytest.mark.parametrize("dtype", CHANGEABLE)
def test_one_element_of_a_tensor_moves_far_and_no_other(dtype: str) -> None:
    slot = {"dtype": dtype, "shape": [3, 5], "offset": 64}
    memory = SharedMemory(64 + 15 * ITEM_BYTES[dtype])
    memory.bytes[:] = np.resize(np.array([0, 60], np.uint8), memory.size)  # small in every type
    before = memory.copy()
    change_one(memory, slot, random.Random(1))
    old, new = decode(before.slot_bytes(slot), dtype), decode(memory.slot_bytes(slot), dtype)
    (at,) = np.flatnonzero(old != new)
    assert np.isfinite(new[at]) and abs(new[at]) > 8 * np.abs(old).max()
    assert np.array_equal(before.bytes[:64], memory.bytes[:64])


@pytest.mark.parametrize("trades", [False, True])
@pytest.mark.parametrize("step", range(1, N_STEPS))
def test_an_element_moves_less_with_every_step(step: int, trades: bool) -> None:
    slot = {"dtype": "float64", "shape": [64], "offset": 0}
    memory = SharedMemory(64 * 8)
    memory.slot_bytes(slot)[:] = np.sort(np.random.default_rng(1).random(64)).view(np.uint8)
    old = decode(memory.copy().slot_bytes(slot), "float64")
    change_one(memory, slot, random.Random(1), trades=trades, step=step)
    new = decode(memory.slot_bytes(slot), "float64")
    assert int((old != new).sum()) == 1 + trades
    assert np.isclose(old.sum(), new.sum(), atol=1e-12, rtol=0) is np.bool_(trades)
    assert np.abs(new - old).max() <= [1, 1 / 8, 2.0**-10, 1 / 3][step]
    if step == N_STEPS - 1:
        assert (np.diff(new) > 0).all(), "what is sorted stays sorted"


@pytest.mark.parametrize("dtype", CHANGEABLE)
def test_an_element_of_any_type_moves_a_little(dtype: str) -> None:
    slot = {"dtype": dtype, "shape": [3, 5], "offset": 0}
    memory = SharedMemory(15 * ITEM_BYTES[dtype])
    memory.bytes[:] = np.resize(np.array([0, 60], np.uint8), memory.size)
    before = memory.copy()
    change_one(memory, slot, random.Random(1), step=1)
    old, new = decode(before.slot_bytes(slot), dtype), decode(memory.slot_bytes(slot), dtype)
    (at,) = np.flatnonzero(old != new)
    assert abs(new[at]) < 1.5 * abs(old[at])


@pytest.mark.parametrize("dtype", CHANGEABLE)
def test_two_elements_that_trade_places_leave_the_sum_and_the_largest(dtype: str) -> None:
    slot = {"dtype": dtype, "shape": [3, 5], "offset": 0}
    memory = SharedMemory(15 * ITEM_BYTES[dtype])
    size = ITEM_BYTES[dtype]
    memory.bytes[: 15 * size].reshape(15, size)[:, size - 1] = np.arange(15) + 40
    old = decode(memory.copy().slot_bytes(slot), dtype)
    change_one(memory, slot, random.Random(1), trades=True)
    new = decode(memory.slot_bytes(slot), dtype)
    assert int((old != new).sum()) == 2 and np.array_equal(np.sort(old), np.sort(new))


def test_two_samples_with_traded_weights_follow_each_other() -> None:
    states = [key.state for key in plan_samples(layout(has_weights=True), n_timed=3, is_slow=False)]
    assert len(TRADED) > 1 and states[states.index(TRADED[0]) :][: len(TRADED)] == list(TRADED)


FLOATS, LABELS = ("float32", [4, 4]), ("int64", [4])


@pytest.mark.parametrize(
    ("first", "second", "are_alike"),
    [
        (FLOATS, FLOATS, True),
        (FLOATS, ("float32", [9, 4]), True),
        (FLOATS, ("float32", [4, 9]), False),
        (FLOATS, ("float64", [4, 4]), False),
        (LABELS, LABELS, True),
        (FLOATS, LABELS, True),
        (FLOATS, ("int64", [5]), False),
        (LABELS, ("int64", [5]), True),
        (("bool", [4]), ("bool", [4]), False),
    ],
)
def test_inputs_are_alike_where_they_can_agree(first: Any, second: Any, are_alike: bool) -> None:
    slots = tuple({"dtype": dtype, "shape": shape} for dtype, shape in (first, second))
    two = replace(layout(has_weights=False), arg_slots=slots)
    assert two.has_twins is are_alike and not replace(two, arg_slots=slots[:1]).has_twins
    planned = [key.family for key in plan_samples(two, n_timed=2, is_slow=False)]
    assert ("alike" in planned) is are_alike


def weights_of(*slots: Any) -> SampleLayout:
    state = {f"w{i}": slot for i, slot in enumerate(slots)}
    return replace(layout(has_weights=False), state=state, parameters=frozenset(state))


def test_parameters_are_zero_or_small_in_one_sample_and_alike_where_two_have_one_form() -> None:
    square = {"dtype": "float32", "shape": [4, 4], "offset": 0}
    for other, flat in (
        ({**square, "offset": 64}, ["zero", "small", "alike"]),
        (square, ["zero", "small"]),  # tied
        ({**square, "offset": 64, "shape": [4]}, ["zero", "small"]),
        ({**square, "offset": 64, "dtype": "int64"}, ["zero", "small"]),
    ):
        planned = plan_samples(weights_of(square, other), n_timed=2, is_slow=False)
        assert [key.state for key in planned if key.state in FLAT_WEIGHTS] == flat
        assert all(key.may_vanish and key.slack.is_by_row for key in planned if key.state in flat)
    assert "zero" not in {key.state for key in plan_samples(weights_of(square), n_timed=2, is_slow=True)}


def test_rows_along_another_axis_are_odd_where_there_are_more_than_two() -> None:
    for shape, is_across in (([4, 4], False), ([2, 3, 4], True)):
        one = replace(layout(has_weights=False), arg_slots=({"dtype": "float32", "shape": shape},))
        planned = plan_samples(one, n_timed=2, is_slow=False)
        assert (SampleKey("mild_rows", ACROSS) in planned) is is_across
