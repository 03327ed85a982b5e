"""Sums over windows: right for every shape, stride, gap and schedule, also where values are not finite."""

import types
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task, Workload
from kernelwright.ir.fusion_edits import own_products
from kernelwright.ir.plan_lowering import LoweredPlan, lower_plan, write_source
from kernelwright.ir.program import Region
from kernelwright.ir.space import Point, Space
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.cpp.choices import resolve
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

WIDE, NARROW = Machine(cores=2, vector_bytes=64), Machine(cores=2, vector_bytes=32)
LOWERING = target_of(CPU_CPP).lowering
CLOSE = 2e-5
EXAMPLES = settings(suppress_health_check=list(HealthCheck))
Moves = tuple[tuple[str, dict[str, ParamValue]], ...]
WINDOW: Moves = (("product-form", {"product": "window"}),)
LAYER = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}

    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn{shape}]

def get_init_inputs():
    return []
"""


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def task_of(layer: str, shape: tuple[int, ...], body: str = "self.layer(x)") -> Task:
    return Task(name="windows", source=LAYER.format(layer=layer, shape=shape, body=body))


def planned(task: Task, machine: Machine, moves: Moves = ()) -> tuple[LoweredPlan, Plan]:
    """Take the convolution from the library; further moves go to its region."""
    captured = capture_task(task, Workload())
    plan = Plan(moves=tuple(Move(skill="fusion:own-product", region=n.name) for n in own_products(captured)))
    for name, params in moves:
        region = region_of(lower_plan(captured, plan, {}, LOWERING, machine))
        plan = plan.then(Move(skill=f"schedule:{name}", region=region.name, params=params))
    return lower_plan(captured, plan, {}, LOWERING, machine), plan


def region_of(lowered: LoweredPlan) -> Region:
    return next(step for step in lowered.program.steps if isinstance(step, Region))


def built(task: Task, lowered: LoweredPlan, plan: Plan) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Return the generated module and the reference, with the same weights."""
    source = write_source(task, {"default": lowered}, plan, render_cpp_candidate)
    module = types.ModuleType("candidate")
    exec(compile(source, "candidate.py", "exec"), module.__dict__)
    reference = construct_model(task, load_namespace(task, Workload()), seed=0)
    own = module.ModelNew()
    own.load_state_dict(reference.state_dict())
    return own, reference


def assert_right(task: Task, machine: Machine = WIDE, moves: Moves = (), *, is_window: bool = True) -> None:
    lowered, plan = planned(task, machine, moves)
    assert not is_window or resolve(region_of(lowered), machine).window is not None
    own, reference = built(task, lowered, plan)
    (x,) = draw_inputs(task, load_namespace(task, Workload()), seed=5)
    with torch.no_grad():
        got = [own(x).double() for _ in range(2)]
        want = reference.double()(x.double())
    scale = want.abs().max().clamp_min(1e-3)
    assert all(((one - want).abs().max() / scale).item() < CLOSE for one in got), task.source


@st.composite
def layers(draw: st.DrawFn, most_filters: int = 3) -> tuple[str, tuple[int, ...]]:
    """Return a depthwise or grouped convolution whose window has two taps somewhere, and its input."""
    rank, groups = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    inputs, outputs = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, most_filters))
    window = [draw(st.integers(1, 5)) for _ in range(rank - 1)] + [draw(st.integers(2, 5))]
    step, gap, pad = (
        [draw(st.integers(1, 3)) for _ in range(rank)],
        [draw(st.integers(1, 3)) for _ in range(rank)],
        [draw(st.integers(0, 3)) for _ in range(rank)],
    )
    step[-1] = min(step[-1], window[-1] - 1)  # neighbouring results share positions
    most = 40 if rank < 3 else 12
    spans = [g * (w - 1) + 1 for w, g in zip(window, gap, strict=True)]
    sizes = [draw(st.integers(span + 3 * s, span + most)) for span, s in zip(spans, step, strict=True)]
    layer = f"nn.Conv{rank}d({inputs}, {outputs}, {tuple(window)}, stride={tuple(step)}, padding={tuple(pad)}"
    layer += f", dilation={tuple(gap)}, groups={groups}, bias={draw(st.booleans())})"
    return layer, (draw(st.integers(1, 2)), inputs, *sizes)


@st.composite
def schedules(draw: st.DrawFn) -> Moves:
    tile = f"{draw(st.integers(1, 9))}x{draw(st.integers(1, 3))}"
    block = f"{draw(st.integers(1, 30))}x{draw(st.integers(1, 4))}"
    return (
        ("register-tile", {"register_tile": tile}),
        ("cache-block", {"cache_block": block}),
        ("streaming-stores", {"stream": draw(st.booleans())}),
        ("threads", {"threads": draw(st.integers(1, 2))}),
    )


def any_layer(examples: int):  # type: ignore[no-untyped-def]
    machine = st.sampled_from([WIDE, NARROW])
    moves = st.one_of(st.just(()), schedules())
    drawn = given(case=layers(), machine=machine, moves=moves)
    return lambda test: settings(EXAMPLES, max_examples=examples)(drawn(test))


@any_layer(3)
def test_windows_of_any_layer(case: tuple[str, tuple[int, ...]], machine: Machine, moves: Moves) -> None:
    assert_right(task_of(*case), machine, (*WINDOW, *moves))


@pytest.mark.slow
@any_layer(60)
def test_windows_of_many_layers(case: tuple[str, tuple[int, ...]], machine: Machine, moves: Moves) -> None:
    assert_right(task_of(*case), machine, (*WINDOW, *moves))


@pytest.mark.parametrize(
    ("layer", "shape", "body"),
    [
        (
            "nn.Conv2d(6, 6, 5, padding=2, groups=6)",
            (2, 6, 19, 37),
            "torch.tanh(self.layer(x.relu())) * 2",
        ),
        ("nn.Conv2d(6, 12, 3, padding=1, groups=3)", (2, 6, 9, 20), "self.layer(x) * x[:, :1]"),
        ("nn.ConvTranspose2d(5, 5, 3, padding=1, groups=5)", (1, 5, 8, 33), "self.layer(x)"),
        ("nn.Conv2d(4, 4, (13, 3), padding=(6, 1), groups=4)", (1, 4, 20, 20), "self.layer(x)"),
    ],
    ids=["epilogue", "groups", "transposed", "tall"],
)
def test_depthwise_and_grouped_convolutions_slide_by_default(
    layer: str, shape: tuple[int, ...], body: str
) -> None:
    assert_right(task_of(layer, shape, body))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [("nn.Conv1d(8, 8, 5, groups=8)", (2, 8, 40)), ("nn.Conv2d(8, 32, 5)", (1, 8, 12, 12))],
    ids=["one-row", "many-filters"],
)
def test_rows_that_serve_one_result_and_many_filters_keep_their_forms(
    layer: str, shape: tuple[int, ...]
) -> None:
    lowered, _ = planned(task_of(layer, shape), WIDE)
    assert resolve(region_of(lowered), WIDE).window is None


def test_values_that_are_not_finite_reach_the_results_that_look_at_them() -> None:
    task = task_of("nn.Conv2d(3, 3, 3, padding=1, groups=3)", (1, 3, 21, 35))
    own, reference = built(task, *planned(task, WIDE))
    x = torch.randn(1, 3, 21, 35)
    x[0, 0, 0, 0], x[0, 1, 20, 34], x[0, 2, 10, 16] = float("nan"), float("inf"), -float("inf")
    with torch.no_grad():
        torch.testing.assert_close(own(x), reference(x), equal_nan=True)


def test_the_space_of_a_depthwise_convolution_has_its_tiles() -> None:
    task = task_of("nn.Conv2d(8, 8, 5, padding=2, groups=8)", (2, 8, 56, 56))
    space = Space(capture_task(task, Workload()), LOWERING, WIDE)
    point = space.plan(Point.of({"own.convolution": "generated"}))
    found = {d.name.rpartition(".")[2]: d for d in point.decisions}
    assert found["product"].legal == ("window", "loops")
    assert len(found["register_tile"].legal) > 2
    assert len(found["cache_block"].legal) > 1
    assert {"stream", "vector_bytes", "threads"} <= set(found)
    assert not {"tile", "jam", "interior_split", "packing"} & set(found)


def test_blocks_of_windows_have_two_sizes() -> None:
    task = task_of("nn.Conv2d(4, 4, 3, groups=4)", (1, 4, 20, 20))
    with pytest.raises(LoweringError):
        planned(task, WIDE, (("cache-block", {"cache_block": "8x1x1"}),))
