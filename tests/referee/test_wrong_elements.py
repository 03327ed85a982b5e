"""Where outputs are wrong: counts, first elements, and what wrong places have in common."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.wrong_numbers import WrongNumbers
from kernelwright.referee.wrong_elements import compare_output

TRUTH = torch.arange(1.0, 1 + 64 * 96).reshape(64, 96)


def found(given: torch.Tensor, expected: torch.Tensor = TRUTH) -> WrongNumbers:
    told = compare_output(given, expected, 1e-6)
    return WrongNumbers.model_validate({"family": "as_is", "output": 0, **told})


def test_a_right_output_has_no_wrong_element() -> None:
    with_nan = TRUTH.clone()
    with_nan[0, 0], with_nan[0, 1] = math.nan, math.inf
    assert found(TRUTH.clone()).n_wrong == 0 and found(with_nan.clone(), with_nan).n_wrong == 0


def test_a_missing_tail_is_told_as_a_range_of_its_axis() -> None:
    wrong = TRUTH.clone()
    wrong[:, 90:] = 0
    lines = found(wrong).lines
    assert lines[0].startswith("out0 on another draw of as_is inputs: 384 of 6144 elements wrong (6.25 %)")
    assert "[0, 90]: 0, expected 91" in lines[1]
    assert lines[2:] == ("- axis 0 (64): every index", "- axis 1 (96): indices 90 to 95")


def test_a_wrong_lane_of_every_tile_is_told_as_a_period() -> None:
    wrong = TRUTH.clone()
    wrong[:, 14::16] += 5000
    wrong[:, 15::16] += 5000
    assert found(wrong).lines[-1] == (
        "- axis 1 (96): 12 indices between 14 and 95; index modulo 16 is 14 to 15"
    )


def test_not_finite_elements_are_counted() -> None:
    wrong = TRUTH.clone()
    wrong[3, 4], wrong[3, 5] = math.nan, -math.inf
    assert "1 NaN and 1 infinities where the reference has none" in found(wrong).lines[0]


def test_scalars_and_whole_numbers_are_outputs_too() -> None:
    assert found(torch.tensor(2.0), torch.tensor(1.0)).lines[1] == "- first wrong: []: 2, expected 1"
    assert found(torch.tensor([1, 2]), torch.tensor([1, 3])).n_wrong == 1


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 95)), min_size=1, max_size=40))
def test_every_wrong_place_lies_in_the_pattern(places: list[tuple[int, int]]) -> None:
    wrong = TRUTH.clone()
    for place in places:
        wrong[place] = -1.0
    told = found(wrong)
    assert told.n_wrong == len(set(places))
    for axis in told.axes:
        indices = {place[axis.axis] for place in places}
        assert axis.n_wrong == len(indices) and (axis.first, axis.last) == (min(indices), max(indices))
        if axis.period is not None:
            assert all(axis.low <= index % axis.period <= axis.high for index in indices)
