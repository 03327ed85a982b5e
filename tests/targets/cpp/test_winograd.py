"""3 x 3 filters by Winograd's transforms: right for every shape and schedule, chosen where they pay."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.targets.cpp.test_windows import (
    EXAMPLES,
    LOWERING,
    NARROW,
    WIDE,
    Moves,
    assert_right,
    planned,
    region_of,
    task_of,
)

from kernelwright.core.machine import Machine
from kernelwright.core.task import Workload
from kernelwright.ir.space import Point, Space
from kernelwright.targets.cpp.choices import resolve
from kernelwright.targets.cpp.winograd import WinogradTiling
from kernelwright.tasks.capture import capture_task

WINOGRAD: Moves = (("product-form", {"product": "winograd"}),)
PLAIN = "nn.Conv2d(16, 24, 3, padding=1)"


def form_of(layer: str, shape: tuple[int, ...], machine: Machine = WIDE) -> object:
    lowered, _ = planned(task_of(layer, shape), machine)
    return resolve(region_of(lowered), machine).window


@st.composite
def layers(draw: st.DrawFn) -> tuple[str, tuple[int, ...]]:
    inputs, outputs, pad = draw(st.integers(1, 20)), draw(st.integers(2, 20)), draw(st.integers(0, 2))
    height, width = draw(st.integers(5, 21)), draw(st.integers(5, 70))
    kind = draw(st.sampled_from(["Conv2d", "ConvTranspose2d"]))
    layer = f"nn.{kind}({inputs}, {outputs}, 3, padding={pad}, bias={draw(st.booleans())})"
    return layer, (draw(st.integers(1, 2)), inputs, height, width)


@st.composite
def schedules(draw: st.DrawFn) -> Moves:
    block = f"{2 * draw(st.integers(1, 6))}x{draw(st.integers(1, 20))}"
    return (
        ("register-tile", {"register_tile": f"{draw(st.integers(1, 9))}x{draw(st.integers(1, 3))}"}),
        ("cache-block", {"cache_block": block}),
        ("streaming-stores", {"stream": draw(st.booleans())}),
        ("threads", {"threads": draw(st.integers(1, 2))}),
    )


def any_layer(examples: int):  # type: ignore[no-untyped-def]
    machine = st.sampled_from([WIDE, NARROW])
    drawn = given(case=layers(), machine=machine, moves=st.one_of(st.just(()), schedules()))
    return lambda test: settings(EXAMPLES, max_examples=examples)(drawn(test))


@any_layer(3)
def test_transforms_of_any_layer(case: tuple[str, tuple[int, ...]], machine: Machine, moves: Moves) -> None:
    assert_right(task_of(*case), machine, (*WINOGRAD, *moves))


@pytest.mark.slow
@any_layer(60)
def test_transforms_of_many_layers(case: tuple[str, tuple[int, ...]], machine: Machine, moves: Moves) -> None:
    assert_right(task_of(*case), machine, (*WINOGRAD, *moves))


@pytest.mark.parametrize(
    ("layer", "shape", "body"),
    [
        (PLAIN, (2, 16, 20, 64), "torch.tanh(self.layer(x.relu())) * 2"),
        (PLAIN, (1, 16, 19, 33 + 30), "self.layer(x) * x[:, :1]"),
        ("nn.Conv3d(8, 16, 3, padding=1)", (1, 8, 5, 8, 32), "self.layer(x)"),
    ],
    ids=["epilogue", "odd", "volume"],
)
def test_wide_images_of_many_channels_are_transformed_by_default(
    layer: str, shape: tuple[int, ...], body: str
) -> None:
    lowered, _ = planned(task_of(layer, shape, body), WIDE)
    assert isinstance(resolve(region_of(lowered), WIDE).window, WinogradTiling)
    assert_right(task_of(layer, shape, body))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("nn.Conv2d(16, 24, 3, padding=1, stride=2)", (1, 16, 64, 64)),
        ("nn.Conv2d(16, 24, 5, padding=2)", (1, 16, 64, 64)),
        ("nn.Conv2d(16, 24, 3, padding=2, dilation=2)", (1, 16, 64, 64)),
        ("nn.Conv2d(16, 24, 3, padding=1, groups=2)", (1, 16, 64, 64)),
        ("nn.Conv2d(2, 24, 3, padding=1)", (1, 2, 64, 64)),
        ("nn.Conv2d(16, 24, 3, padding=1)", (1, 16, 3, 5)),
    ],
    ids=["stride", "five", "gaps", "groups", "few-channels", "small"],
)
def test_others_are_not(layer: str, shape: tuple[int, ...]) -> None:
    assert not isinstance(form_of(layer, shape), WinogradTiling)


def test_rows_of_tiles_lie_without_gaps() -> None:
    tiling = form_of("nn.Conv2d(16, 24, 3, padding=1)", (1, 16, 14, 14))
    assert isinstance(tiling, WinogradTiling)
    assert tiling.row_tiles == 7 and tiling.block_vectors * tiling.lanes - 7 * tiling.tile_rows < 16


def test_the_space_has_this_form_and_says_where_it_is_none() -> None:
    space = Space(capture_task(task_of(PLAIN, (2, 16, 56, 56)), Workload()), LOWERING, WIDE)
    point = space.plan(Point.of({"own.convolution": "generated"}))
    found = {d.name.rpartition(".")[2]: d for d in point.decisions}
    assert found["product"].default == "winograd" and "tile" in found["product"].legal
    assert len(found["register_tile"].legal) > 1 and len(found["cache_block"].legal) > 2
    strided = task_of("nn.Conv2d(16, 24, 3, stride=2)", (2, 16, 57, 57))
    point = Space(capture_task(strided, Workload()), LOWERING, WIDE).plan(
        Point.of({"own.convolution": "generated"})
    )
    product = next(d for d in point.decisions if d.name.endswith("product"))
    assert "winograd" not in product.legal
