"""What a workload's layout says about the arithmetic that may be behind an output."""

import pytest

from kernelwright.referee.session.input_samples import SampleLayout


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
