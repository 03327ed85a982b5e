"""Attention that Triton code carries out: right for masks, shared heads and any block sizes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.targets.cpp.test_attention import HEADS, MASKS, attention
from tests.targets.cpp.test_products import EXAMPLES, task_of
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

BLOCKS: dict[str, ParamValue] = {"block": 16, "step": 16}
CASES = {
    "plain": ("x0, x1, x2", "None", "", [(2, 20, 18), (2, 37, 18), (2, 37, 18)]),
    "causal": ("x0, x1, x2", "None", ", is_causal=True", [(3, 37, 20)] * 3),
    "fewer keys than rows": ("x0, x1, x2", "None", ", is_causal=True", [(1, 40, 8), (1, 19, 8), (1, 19, 8)]),
    "a row that sees no key": ("x0, x1, x2", "x3 > 2.0", "", [(1, 20, 8), (1, 33, 8), (1, 33, 8), (20, 33)]),
    "float mask": ("x0, x1, x2", "x3", "", [(2, 18, 8), (2, 33, 8), (2, 33, 24), (18, 33)]),
    "shared heads": (
        HEADS, "None", ", is_causal=True, enable_gqa=True", [(2, 21, 6, 18), (2, 40, 2, 18), (2, 40, 2, 24)],
    ),
    "one key": ("x0, x1, x2", "None", "", [(2, 5, 18), (2, 1, 18), (2, 1, 3)]),
    "one feature": ("x0, x1, x2", "None", "", [(2, 5, 1), (2, 20, 1), (2, 20, 1)]),
    "expanded keys": ("x0, x1.expand(2, 20, 8), x1.expand(2, 20, 8)", "None", "", [(2, 18, 8), (2, 1, 8)]),
    "one row": ("x0, x1, x2", "None", "", [(2, 3, 1, 32), (2, 3, 90, 32), (2, 3, 90, 32)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_softmax_comes_with_the_keys(interpreter: Interpreter, name: str) -> None:
    operands, mask, rest, shapes = CASES[name]
    how = is_right(interpreter, "None", attention(operands, mask, rest), *shapes, **BLOCKS)
    assert how.form == "attention" and how.block_kept == how.block_inner == 16


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]], dict[str, ParamValue]]:
    """Return what is computed, the shapes of its inputs, and the schedule."""
    batch, shared, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.sampled_from([1, 3]))
    rows, keys = draw(st.integers(1, 50)), draw(st.integers(1, 90))
    depth, columns = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    kind = draw(st.sampled_from(["causal", *MASKS]))
    sizes = ((groups * shared, rows, depth), (shared, keys, depth), (shared, keys, columns))
    is_turned = draw(st.booleans())
    shapes = [(batch, n, h, f) if is_turned else (batch, h, n, f) for h, n, f in sizes]
    rest = f", is_causal={kind == 'causal'}, enable_gqa={groups > 1}"
    body = attention(HEADS if is_turned else "x0, x1, x2", MASKS.get(kind, "None"), rest)
    if kind not in ("none", "causal"):
        shapes.append((rows, keys))
    sizes_of: dict[str, ParamValue] = {n: draw(st.sampled_from([16, 32])) for n in ("block", "step")}
    return body, shapes, sizes_of | draw(st.sampled_from([{}, {"stages": 3}, {"programs": 2}]))


@pytest.mark.slow
@settings(EXAMPLES, max_examples=6)
@given(case=cases())
def test_attention_of_any_shape(
    interpreter: Interpreter, case: tuple[str, list[tuple[int, ...]], dict[str, ParamValue]]
) -> None:
    body, shapes, moves = case
    is_right(interpreter, "None", body, *shapes, **moves)


def test_blocks_of_keys_that_no_row_sees_are_left_out() -> None:
    shape = (2, 96, 32)
    text = print_kernel(tiled(planned(task_of("None", attention("x0, x1, x2"), *[shape] * 3))[0])).text
    causal = attention("x0, x1, x2", rest=", is_causal=True")
    text_of_causal = print_kernel(tiled(planned(task_of("None", causal, *[shape] * 3))[0])).text
    assert "no row here sees" in text_of_causal and "no row here sees" not in text


def test_a_point_of_the_space_has_rows_keys_warps_and_stages() -> None:
    shape = (2, 4, 512, 64)
    task = task_of("None", attention("x0, x1, x2", rest=", is_causal=True"), *[shape] * 3)
    found = Space(capture_task(task, Workload()), LOWERING, Machine(accelerator=Accelerator(units=8)))
    point = found.plan(Point.of({"own.scaled_dot_product_attention": "generated"}))
    assert point.illegal is None and point.lowered is not None
    (region,) = (s for s in point.lowered.program.steps if isinstance(s, Region))
    decided = {d.param for d in point.decisions if d.region == region.name}
    assert decided == {"block_kept", "block_inner", "num_warps", "num_stages", "precision", "programs"}
    for edit in triton_edits(Accelerator(units=8)).values():
        for site in edit.sites(point.lowered.program):
            for field, values in site.params.items():
                for value in values:
                    changed = edit.apply(point.lowered.program, site.region, {field: value})
                    assert all(print_kernel(s).text for s in changed.steps if isinstance(s, Region))


def test_wide_tiles_of_scores_are_refused() -> None:
    shape = (1, 1024, 128)
    lowered, _ = planned(task_of("None", attention("x0, x1, x2"), *[shape] * 3))
    region = tiled(lowered)
    assert decide(region).form == "attention"
    with pytest.raises(LoweringError, match="no tile"):
        planned(task_of("None", attention("x0, x1, x2"), *[shape] * 3), {"block": 256})
