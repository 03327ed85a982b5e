"""Generated attention: right for every shape, mask and schedule; points of the space; never the default."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.targets.cpp.test_products import (  # noqa: F401  # the fixture gives each test a home of its own
    EXAMPLES,
    LOWERING,
    NARROW,
    WIDE,
    _own_home,
    assert_right,
    first_region,
    planned,
    task_of,
)

from kernelwright.core.machine import Machine
from kernelwright.core.plan import ParamValue
from kernelwright.core.task import Workload
from kernelwright.ir.program import Call
from kernelwright.ir.space import Point, Space
from kernelwright.targets.cpp.printer import print_region
from kernelwright.targets.cpp.schedule import schedule_of
from kernelwright.tasks.capture import capture_task

HEADS = "x0.transpose(1, 2), x1.transpose(1, 2), x2.transpose(1, 2)"
MASKS = {
    "none": "None",
    "bool": "x3 > 0.3",
    "float": "x3",
    "-inf": "torch.where(x3 > 0.3, x3, -float('inf'))",
}
Moves = tuple[tuple[str, dict[str, ParamValue]], ...]


def attention(operands: str, mask: str = "None", rest: str = "") -> str:
    return f"F.scaled_dot_product_attention({operands}, {mask}{rest})"


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]], Machine, Moves]:
    """Return what the model computes, the shapes of its inputs, the machine and the schedule."""
    batch, shared, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.sampled_from([1, 1, 3]))
    rows, keys = draw(st.integers(1, 90)), draw(st.integers(1, 150))
    depth, columns = draw(st.integers(1, 70)), draw(st.integers(1, 70))
    is_turned = draw(st.booleans())
    kind = draw(st.sampled_from(["causal", *MASKS]))
    sizes = ((groups * shared, rows, depth), (shared, keys, depth), (shared, keys, columns))
    shapes = [(batch, n, h, f) if is_turned else (batch, h, n, f) for h, n, f in sizes]
    rest = f", is_causal={kind == 'causal'}, enable_gqa={groups > 1}"
    body = attention(HEADS if is_turned else "x0, x1, x2", MASKS.get(kind, "None"), rest)
    if kind not in ("none", "causal"):
        shapes.append((rows, keys))
    sides = (draw(st.integers(1, 12)), draw(st.integers(1, 3)))
    block = (draw(st.integers(1, 60)), draw(st.integers(1, 90)), draw(st.integers(1, 60)))
    moves: Moves = (
        ("register-tile", {"register_tile": "x".join(map(str, sides))}),
        ("cache-block", {"cache_block": "x".join(map(str, block))}),
        ("exp-degree", {"exp_degree": draw(st.sampled_from([5, 6]))}),
    )
    return body, shapes, draw(st.sampled_from([WIDE, NARROW])), draw(st.sampled_from([(), moves]))


def is_right(body: str, shapes: list[tuple[int, ...]], machine: Machine = WIDE, moves: Moves = ()) -> None:
    task = task_of("None", body, *shapes)
    lowered, plan = planned(task, machine, ())
    names = [step.name for step in lowered.program.steps if "attention" in getattr(step, "name", "")]
    assert names[-1:] and not [s for s in lowered.program.steps if isinstance(s, Call) and not s.is_view]
    if moves and first_region(lowered).name in names:
        lowered, plan = planned(task, machine, moves)
    assert_right(task, lowered, plan)


def test_grouped_heads_that_lie_between_the_rows_are_right() -> None:
    body = attention(HEADS, rest=", is_causal=True, enable_gqa=True")
    is_right(body, [(2, 37, 6, 21), (2, 70, 2, 21), (2, 70, 2, 35)], NARROW)


@pytest.mark.slow
@settings(EXAMPLES, max_examples=20)
@given(case=cases())
def test_attention_of_any_shape_is_right(case: tuple[str, list[tuple[int, ...]], Machine, Moves]) -> None:
    is_right(*case)


@pytest.mark.slow
@pytest.mark.parametrize("rest", ["", ", is_causal=True"])
def test_threads_share_what_is_large(rest: str) -> None:
    shape = (2, 2, 300, 40)
    task = task_of("None", attention("x0, x1, x2", "None", rest), shape, shape, shape)
    lowered, plan = planned(task, WIDE)
    assert "omp for collapse(3)" in print_region(first_region(lowered))
    assert_right(task, lowered, plan)


def test_names_of_tensors_may_be_any() -> None:
    task = task_of("None", attention("sums, row, tops"), (5, 8), (5, 8), (5, 8))
    source = task.source.replace("x0, x1, x2):", "sums, row, tops):")
    text = print_region(first_region(planned(type(task)(name="names", source=source), WIDE)[0]))
    assert "sums_2" in text and "row_2" in text and "tops_2" in text


# -- the space -------------------------------------------------------------------------------------


def space() -> Space:
    shape = (2, 2, 96, 32)
    task = task_of("None", attention("x0, x1, x2", "None", ", is_causal=True"), shape, shape, shape)
    return Space(capture_task(task, Workload()), LOWERING, NARROW)


OWNED = {"own.scaled_dot_product_attention": "generated"}


def test_our_code_is_a_legal_point_beside_the_library_which_stays_the_default() -> None:
    (decision,) = [d for d in space().decisions() if d.name in OWNED]
    assert decision.default == "torch" and decision.legal == ("torch", "generated")
    point = space().plan(Point.of(OWNED))
    assert point.illegal is None and point.lowered is not None
    assert "const int last = least(96, row + rows);" in print_region(first_region(point.lowered))
    names = {d.name.rpartition(".")[2] for d in point.decisions}
    assert {"register_tile", "cache_block", "exp_degree", "vector_bytes"} <= names
    assert not {"product", "packing", "chunk", "jam", "tile", "unroll", "stream", "online"} & names


@pytest.mark.parametrize("field", ["register_tile", "cache_block", "vector_bytes", "exp_degree"])
def test_every_value_of_a_schedule_is_a_point(field: str) -> None:
    points = space()
    owned = points.plan(Point.of(OWNED))
    (decision,) = [d for d in owned.decisions if d.name.endswith(f".{field}")]
    assert len(decision.legal) > 1
    for value in decision.legal:
        point = points.plan(Point.of(OWNED | {decision.name: value}))
        assert point.illegal is None and point.lowered is not None
        region = first_region(point.lowered)
        assert getattr(schedule_of(region), field) == value
        assert print_region(region)
