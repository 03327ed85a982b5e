"""Products and convolutions of our own in Triton: right for every shape and schedule, legal points."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.targets.cpp.test_products import EXAMPLES, convolutions, task_of
from tests.targets.triton.interpreted import Interpreter
from tests.targets.triton.own import LOWERING, is_right, planned, tiled

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Accelerator, Machine
from kernelwright.core.plan import ParamValue
from kernelwright.core.task import Workload
from kernelwright.ir.program import Region
from kernelwright.ir.space import Point, Space
from kernelwright.targets.triton.edits import triton_edits
from kernelwright.targets.triton.printer import print_kernel
from kernelwright.targets.triton.schedule import decide
from kernelwright.tasks.capture import capture_task

BODIES = {
    "bare": ("x0 @ x1", 2),
    "epilogue": ("torch.tanh(x0 @ x1 + x2) * 2", 3),
    "prologue": ("(torch.exp(x0) - 3.0) @ (x1 * x1)", 2),
    "gated": ("torch.nn.functional.silu(x0) @ x1", 2),
    "turned": ("torch.relu(x0 @ x1.t().contiguous().t())", 2),
}
"""What is computed, and of how many operands."""
CONVOLUTIONS = {
    "strided and dilated": ("nn.Conv2d(3, 20, 3, stride=2, padding=2, dilation=2)", (2, 3, 17, 15)),
    "grouped": ("nn.Conv2d(8, 36, 3, padding=1, groups=2)", (1, 8, 7, 9)),
    "transposed": ("nn.ConvTranspose2d(5, 18, 4, stride=2, padding=2)", (1, 5, 6, 7)),
    "one dimension": ("nn.Conv1d(6, 17, 5, padding=2)", (2, 6, 33)),
}
SIZES: dict[str, ParamValue] = {"block": 16, "columns": 16, "step": 16}


@st.composite
def tilings(draw: st.DrawFn) -> dict[str, ParamValue]:
    """Return edits of a product's schedule, a persistent grid and shared tiles among them."""
    sizes: dict[str, ParamValue] = {
        name: draw(st.sampled_from([16, 32, 64])) for name in ("block", "columns", "step")
    }
    sizes["group"] = draw(st.sampled_from([1, 4]))
    return sizes | draw(
        st.sampled_from([{}, {"stages": 3}, {"programs": 2}, {"stream": draw(st.integers(2, 40))}])
    )


def operands(body: str, m: int, k: int, n: int) -> tuple[tuple[int, ...], ...]:
    return ((m, k), (k, n), (n,))[: BODIES[body][1]]


@pytest.mark.parametrize("body", BODIES)
def test_products_with_what_is_before_and_after_them(interpreter: Interpreter, body: str) -> None:
    how = is_right(interpreter, "None", BODIES[body][0], *operands(body, 37, 21, 50), **SIZES)
    assert how.form == "dot" and how.blocks == 12


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions_are_products_of_windows_that_nobody_writes(interpreter: Interpreter, kind: str) -> None:
    layer, shape = CONVOLUTIONS[kind]
    assert is_right(interpreter, layer, "torch.relu(self.layer(x0))", shape).form == "dot"


@pytest.mark.slow
@settings(EXAMPLES, max_examples=6)
@given(
    body=st.sampled_from(sorted(BODIES)),
    m=st.integers(2, 90),
    n=st.integers(2, 90),
    k=st.integers(2, 90),
    moves=tilings(),
)
def test_products_of_any_shape_and_schedule(
    interpreter: Interpreter, body: str, m: int, n: int, k: int, moves: dict[str, ParamValue]
) -> None:
    is_right(interpreter, "None", BODIES[body][0], *operands(body, m, k, n), **moves)


@pytest.mark.slow
@settings(EXAMPLES, max_examples=6)
@given(case=convolutions())
def test_convolutions_of_any_shape(interpreter: Interpreter, case: tuple[str, tuple[int, ...]]) -> None:
    task = task_of(case[0], "torch.sigmoid(self.layer(x0)) - 0.5", case[1])
    regions = [s for s in planned(task)[0].program.steps if isinstance(s, Region)]
    if any(decide(region).is_tiled for region in regions):  # depthwise ones have no second operand
        is_right(interpreter, case[0], "torch.sigmoid(self.layer(x0)) - 0.5", case[1])


def test_a_depthwise_convolution_is_no_product() -> None:
    lowered, _ = planned(task_of("nn.Conv2d(8, 8, 3, padding=1, groups=8)", "self.layer(x0)", (2, 8, 20, 20)))
    (region,) = (s for s in lowered.program.steps if isinstance(s, Region))
    assert decide(region).form == "flat" and "tl.dot" not in print_kernel(region).text


# -- split-K ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_long_sums_are_split_and_combined_in_order(interpreter: Interpreter, parts: int) -> None:
    shapes = ((17, 512), (512, 33), (33,))
    how = is_right(interpreter, "None", BODIES["epilogue"][0], *shapes, split=parts)
    assert how.dot is not None and how.size_of(how.dot.batch) == parts
    lowered, _ = planned(task_of("None", BODIES["epilogue"][0], *shapes), {"split": parts})
    first, last = (s for s in lowered.program.steps if isinstance(s, Region))
    assert "tanh(" not in print_kernel(first).text and "tanh(" in print_kernel(last).text


def test_only_equal_parts_of_a_product_are_taken() -> None:
    task = task_of("None", "x0 @ x1", (16, 514), (514, 16))
    region = tiled(planned(task)[0])
    (site,) = triton_edits(Accelerator())["triton-split"].sites(planned(task)[0].program)
    assert site.region == region.name and site.params["parts"] == (2,)
    with pytest.raises(LoweringError, match="4 equal parts"):
        planned(task, {"split": 4})


# -- stream-K --------------------------------------------------------------------------------------


@pytest.mark.parametrize("programs", [2, 7, 12, pytest.param(59, marks=pytest.mark.slow), 10_000])
def test_programs_share_the_steps_of_all_tiles(interpreter: Interpreter, programs: int) -> None:
    """Twelve tiles of five steps: ranges within a tile, over several, one tile each, and one step each."""
    how = is_right(
        interpreter, "None", BODIES["epilogue"][0], (37, 70), (70, 50), (50,), **SIZES, stream=programs
    )
    assert how.blocks == 12 and how.steps == 5 and how.stream == min(programs, 60)


def test_batches_of_products_share_their_steps_too(interpreter: Interpreter) -> None:
    assert is_right(interpreter, "None", "x0 @ x1", (3, 20, 50), (3, 50, 18), **SIZES, stream=5).stream == 5


def test_a_grid_is_either_persistent_or_shared() -> None:
    task = task_of("None", "x0 @ x1", (64, 64), (64, 64))
    shared, persistent = (
        decide(tiled(planned(task, SIZES | moves)[0]))
        for moves in ({"programs": 2, "stream": 7}, {"stream": 7, "programs": 2})
    )
    assert (shared.programs, shared.stream) == (None, 7) and (persistent.programs, persistent.stream) == (
        2,
        None,
    )


def test_tiles_are_shared_where_the_last_wave_would_be_mostly_empty() -> None:
    edit = triton_edits(Accelerator(units=132))["triton-stream"]
    tiles = {"block": 64, "columns": 64, "step": 32}
    values = {}
    for columns in (64 * 133, 64 * 132, 64 * 131 * 9):  # one tile too many, a full wave, many waves
        task = task_of("None", "x0 @ x1", (64, 2048), (2048, columns))
        sites = edit.sites(planned(task, tiles)[0].program)
        values[columns] = [site.params["stream"] for site in sites]
    assert list(values.values()) == [[(132, 264)], [(264,)], [()]] or values


# -- the space -------------------------------------------------------------------------------------


def space(task_body: str, *shapes: tuple[int, ...], units: int | None = 132) -> Space:
    task = task_of("None", task_body, *shapes)
    machine = Machine(accelerator=Accelerator(units=units))
    return Space(capture_task(task, Workload()), LOWERING, machine)


def test_our_code_is_a_legal_point_beside_the_library_which_stays_the_default() -> None:
    found = space("torch.relu(x0 @ x1)", (512, 2048), (2048, 256))
    (decision,) = [d for d in found.decisions() if d.name == "own.mm"]
    assert decision.default == "torch" and decision.legal == ("torch", "generated")
    point = found.plan(Point.of({"own.mm": "generated"}))
    assert point.illegal is None and point.lowered is not None
    (region,) = (s for s in point.lowered.program.steps if isinstance(s, Region))
    values = {d.param: d.legal for d in point.decisions if d.region == region.name}
    assert set(values) >= {
        "block_kept", "block_columns", "block_inner", "group_rows", "num_warps", "num_stages", "precision",
        "parts",
    }  # fmt: skip
    assert values["block_kept"][0] == 64 and set(values["block_kept"]) == {16, 32, 64, 128, 256}


def test_points_drawn_by_lot_are_programs() -> None:
    found = space("torch.relu(x0 @ x1)", (512, 2048), (2048, 256))
    drawn = [point for point in found.sample(40, seed=3, changes=8.0) if point.lowered is not None]
    owned = [p for p in drawn if dict(p.point.values).get("own.mm") == "generated"]
    assert len(owned) > 5
    for point in owned:
        assert point.lowered is not None
        for step in point.lowered.program.steps:
            assert not isinstance(step, Region) or print_kernel(step).text
