"""Generated recurrent layers: right for every kind, shape and layout, legal, chosen where they apply."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.core.task import Task, Workload
from kernelwright.ir.fusion_edits import OWN_RECURRENCE, own_recurrences
from kernelwright.ir.plan_lowering import LoweredPlan, lower_plan, sites
from kernelwright.ir.program import Region
from kernelwright.ir.recurrence import find_recurrence
from kernelwright.targets.cpp.printer import print_region
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import capture_task

from .test_products import LOWERING, NARROW, WIDE, assert_right

EDIT = f"fusion:{OWN_RECURRENCE}"
EXAMPLES = settings(suppress_health_check=list(HealthCheck), max_examples=12)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def layer_task(
    layer: str,
    steps: int,
    rows: int,
    features: int,
    units: int,
    *,
    has_states: bool = False,
    **options: object,
) -> Task:
    """Return a task whose result holds the output and every last state."""
    given = ", ".join(f"{name}={value!r}" for name, value in options.items())
    shape = (rows, steps, features) if options.get("batch_first") else (steps, rows, features)
    source = f"""
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}({features}, {units}{", " + given if given else ""})

    def forward(self, x, *states):
        out, last = self.layer(x, {"states if len(states) > 1 else states[0]" if has_states else "None"})
        last = last if isinstance(last, tuple) else (last,)
        return torch.cat([out.flatten(), *(one.flatten() for one in last)])

def get_inputs():
    n = {options.get("num_layers", 1)} * {2 if options.get("bidirectional") else 1}
    states = [torch.randn(n, {rows}, {units}) for _ in range({2 if "LSTM" in layer else 1})]
    return [torch.randn{shape}{", *states" if has_states else ""}]

def get_init_inputs():
    return []
"""
    return Task(name="layer", source=source)


def planned(
    task: Task, machine: Machine, params: tuple[tuple[str, dict[str, ParamValue]], ...] = ()
) -> tuple[LoweredPlan, Plan]:
    """Take every recurrent layer from the library; further moves go to the first one."""
    captured = capture_task(task, Workload())
    nodes = own_recurrences(captured)
    assert nodes, "no layer that code could be generated for"
    plan = Plan(moves=tuple(Move(skill=EDIT, region=node.name) for node in nodes))
    for name, values in params:
        region = layers(lower_plan(captured, plan, {}, LOWERING, machine))[0]
        plan = plan.then(Move(skill=f"schedule:{name}", region=region.name, params=values))
    return lower_plan(captured, plan, {}, LOWERING, machine), plan


def layers(lowered: LoweredPlan) -> list[Region]:
    return [s for s in lowered.program.steps if isinstance(s, Region) and s.sequence is not None]


@given(
    layer=st.sampled_from(["nn.LSTM", "nn.GRU", "nn.RNN"]),
    steps=st.integers(1, 40),
    rows=st.integers(1, 20),
    features=st.integers(1, 40),
    units=st.integers(1, 50),
    num_layers=st.integers(1, 2),
    bias=st.booleans(),
    bidirectional=st.booleans(),
    batch_first=st.booleans(),
    has_states=st.booleans(),
    is_wide=st.booleans(),
)
@example("nn.LSTM", 3, 200, 5, 33, 1, True, False, False, True, True)  # more rows than steps of a block
@example("nn.GRU", 150, 2, 16, 16, 2, True, True, True, True, False)  # several blocks of steps
@EXAMPLES
def test_layers_are_right(
    layer: str,
    steps: int,
    rows: int,
    features: int,
    units: int,
    num_layers: int,
    bias: bool,
    bidirectional: bool,
    batch_first: bool,
    has_states: bool,
    is_wide: bool,
) -> None:
    task = layer_task(
        layer,
        steps,
        rows,
        features,
        units,
        has_states=has_states,
        num_layers=num_layers,
        bias=bias,
        bidirectional=bidirectional,
        batch_first=batch_first,
    )
    lowered, plan = planned(task, WIDE if is_wide else NARROW)
    assert len(layers(lowered)) == num_layers * (2 if bidirectional else 1)
    assert_right(task, lowered, plan)


def test_a_layer_that_threads_share_is_right() -> None:
    task = layer_task("nn.LSTM", 20, 3, 24, 200, has_states=True)
    lowered, plan = planned(task, WIDE)
    (region,) = layers(lowered)
    assert "#pragma omp for" in print_region(region)
    assert_right(task, lowered, plan)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_plain_layers_are_right(nonlinearity: str) -> None:
    task = layer_task("nn.RNN", 9, 4, 7, 18, has_states=True, nonlinearity=nonlinearity)
    assert_right(task, *planned(task, WIDE))


@pytest.mark.parametrize("tile, block", [("1x4", "1x7"), ("3x4", "5x3"), ("5x4", "23x4")])
def test_every_tile_and_block_gives_the_same(tile: str, block: str) -> None:
    task = layer_task("nn.LSTM", 23, 7, 10, 20, has_states=True)
    moves = (("register-tile", {"register_tile": tile}), ("cache-block", {"cache_block": block}))
    schedule = assert_right(task, *planned(task, WIDE, moves))
    assert (schedule.register_tile, schedule.cache_block) == (tile, block)


@pytest.mark.parametrize(
    "layer, mode, options",
    [("nn.LSTM", "eval", {"proj_size": 4}), ("nn.GRU", "train", {"num_layers": 2, "dropout": 0.5})],
)
def test_what_no_code_is_generated_for_stays_with_the_library(
    layer: str, mode: str, options: dict[str, object]
) -> None:
    task = layer_task(layer, 4, 2, 6, 8, **options).model_copy(update={"mode": mode})
    assert own_recurrences(capture_task(task, Workload())) == ()


def test_only_targets_with_such_kernels_are_offered_them() -> None:
    captured = capture_task(layer_task("nn.LSTM", 4, 2, 6, 8), Workload())
    for target, count in ((CPU_CPP, 1), (TargetName(device="cuda", language="triton"), 0)):
        lowering = target_of(target).lowering
        assert lowering is not None
        lowered = lower_plan(captured, Plan(), {}, lowering)
        assert len(sites(lowered, EDIT)) == count


def test_other_regions_of_a_graph_are_no_recurrences() -> None:
    lowered, _ = planned(layer_task("nn.GRU", 4, 2, 6, 8), WIDE)
    regions = [step for step in lowered.program.steps if isinstance(step, Region)]
    found = [find_recurrence(region) for region in regions]
    assert [form.sizes for form in found if form is not None] == [(4, 2, 8, 6)] and None in found


def test_a_layer_is_taken_from_the_library_once() -> None:
    lowered, plan = planned(layer_task("nn.GRU", 4, 2, 6, 8), WIDE)
    with pytest.raises(LoweringError, match="already in force"):
        lower_plan(lowered.captured, plan.then(plan.moves[0]), {}, LOWERING, WIDE)


def test_no_field_of_loops_is_offered() -> None:
    lowered, _ = planned(layer_task("nn.LSTM", 30, 4, 64, 64), WIDE)
    (layer,) = layers(lowered)
    found = {name: sites(lowered, f"schedule:{name}") for name in LOWERING.edits_for(WIDE)}
    names = {name for name, places in found.items() if layer.name in {site.region for site in places}}
    assert names == {"register-tile", "cache-block", "vector-width", "exp-degree", "retune"}
