"""Strided loads: transposed in registers where that pays, and right at every edge."""

import dataclasses
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ir.regions import F, at, op, run, softmax

from kernelwright.ir.program import Axis, Bound, Const, Load, LoopStage, Region, StoreTo
from kernelwright.targets.cpp.printer import print_region
from kernelwright.targets.cpp.schedule import CppSchedule
from kernelwright.targets.cpp.strided_loads import best_lane_axis

few = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
SIZE = st.sampled_from((1, 7, 8, 9, 16, 17, 31, 40, 100))
TILE = st.sampled_from((None, 16, 24))
TRANSPOSES = "transpose_lanes<LANES>("


def transposed(n: int, rows: int, columns: int, load: Load | None = None, **schedule: object) -> Region:
    """relu(x[b, j, i]) + y[b, i, j]."""
    x = load or Load("x", at(b=rows * columns, j=rows, i=1), F)
    here = at(b=rows * columns, i=columns, j=1)
    value = op("add", op("max", x, Const(0.0, F)), Load("y", here, F))
    stage = LoopStage("z", "map", (), value, F, stores=(StoreTo("out", here),))
    kept = (Axis("b", n), Axis("i", rows), Axis("j", columns))
    return Region("transposed", kept, (), (stage,), CppSchedule(**schedule))  # type: ignore[arg-type]


def channel_softmax(places: int, channels: int, **schedule: object) -> Region:
    """Softmax over channels that lie side by side, stored place by place for each channel."""
    region = softmax(places, channels, **schedule)
    last = dataclasses.replace(region.stages[-1], stores=(StoreTo("out", at(j=places, i=1)),))
    return dataclasses.replace(region, stages=(*region.stages[:-1], last))


@few
@given(n=st.integers(1, 3), rows=SIZE, columns=SIZE, tile=TILE, stream=st.booleans())
def test_a_transposed_operand_is_read_right(
    tmp_path: Path, n: int, rows: int, columns: int, tile: int | None, stream: bool
) -> None:
    x, y = torch.randn(n, columns, rows), torch.randn(n, rows, columns)
    x[0, -1, -1] = float("nan")
    out = torch.empty_like(y)
    region = transposed(n, rows, columns, tile=tile, stream=stream)
    run(region, tmp_path, x=x, y=y, out=out)
    assert torch.equal(out.nan_to_num(7), (torch.relu(x.mT) + y).nan_to_num(7))


@few
@given(places=SIZE, channels=SIZE, tile=TILE, jam=st.sampled_from((1, 6)))
def test_a_softmax_over_what_lies_side_by_side_is_right(
    tmp_path: Path, places: int, channels: int, tile: int | None, jam: int
) -> None:
    x = torch.randn(places, channels) * 5
    out = torch.empty(channels, places)
    run(channel_softmax(places, channels, vector_axis="i", tile=tile, jam=jam), tmp_path, x=x, out=out)
    want = torch.softmax(x.double(), 1).T
    assert (out.double() - want).abs().max() <= 2e-6


def test_blocks_take_a_line_of_the_cache_of_another_axis() -> None:
    text = print_region(transposed(4, 48, 64))
    assert TRANSPOSES in text and "i_start += 16" in text


def test_lanes_run_along_places_where_channels_lie_side_by_side() -> None:
    region = channel_softmax(4096, 128)
    assert best_lane_axis(region) == "i"
    assert TRANSPOSES in print_region(region)


def test_short_rows_are_summed_side_by_side() -> None:
    assert TRANSPOSES in print_region(softmax(4096, 16)) and TRANSPOSES not in print_region(softmax(4096, 64))


@pytest.mark.parametrize(
    "region",
    [
        transposed(4, 4, 64),  # too few neighbours
        transposed(4, 48, 8, vector_axis="j"),  # too few lanes
        transposed(4, 48, 64, Load("x", at(b=48 * 64, i=64, j=1), F)),  # contiguous
        transposed(4, 48, 64, Load("x", at(b=48 * 64, j=48, i=1), F, (Bound(at(i=1), 40),))),  # guarded
        channel_softmax(64, 2000, vector_axis="i"),  # rows too long for scratch
    ],
)
def test_what_would_not_pay_is_loaded_as_it_lies(region: Region) -> None:
    assert TRANSPOSES not in print_region(region)
