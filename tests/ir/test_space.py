"""The space of programs: the default point, points drawn by lot, what is illegal and why."""

import pytest
import torch
from torch import nn

from kernelwright.core.machine import Machine
from kernelwright.core.plan import Plan
from kernelwright.core.target import CPU_CPP
from kernelwright.ir.plan_lowering import lower_plan
from kernelwright.ir.space import Point, Space
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import capture_module

MACHINE = Machine(cores=2, vector_bytes=32)
LOWERING = target_of(CPU_CPP).lowering


class Mish(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mish(self.linear(x)) * 0.5 + x


class Pooled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.nn.functional.max_pool2d(torch.relu(x), 3, 2, 1).flatten(1), 1)


CASES = {"mish": (Mish(), torch.randn(512, 256)), "pooled": (Pooled(), torch.randn(4, 8, 33, 35))}


def space_of(name: str) -> Space:
    module, x = CASES[name]
    return Space(capture_module(module, (x,)), LOWERING, MACHINE)


@pytest.mark.parametrize("name", CASES)
def test_the_default_point_is_what_the_empty_plan_lowers_to(name: str) -> None:
    space = space_of(name)
    planned = space.plan(Point())
    assert planned.plan == Plan() and planned.illegal is None and planned.lowered is not None
    assert planned.lowered.program == lower_plan(space.captured, Plan(), {}, LOWERING, MACHINE).program
    assert all(decision.default in decision.legal for decision in planned.decisions)


@pytest.mark.parametrize("name", CASES)
def test_every_point_is_a_plan_that_lowers_to_its_program_or_says_why_not(name: str) -> None:
    space = space_of(name)
    drawn = list(space.sample(25, seed=3))
    assert len({planned.point for planned in drawn}) == 25
    for planned in drawn:
        assert (planned.lowered is None) == bool(planned.illegal)
        if planned.lowered is not None:
            again = lower_plan(space.captured, planned.plan, {}, LOWERING, MACHINE)
            assert again.program == planned.lowered.program
            assert space.plan(planned.point).plan == planned.plan
    programs = {planned.lowered.program for planned in drawn if planned.lowered is not None}
    assert len(programs) > 12


def test_size_is_told_by_factor() -> None:
    sizes = space_of("mish").size()
    assert {"algebra", "fusion", "library", "loops", "threads", "vectors", "approximations"} <= set(sizes)
    assert sum(sizes.values()) > 4 and all(size >= 0 for size in sizes.values())


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"r_add.exp_degree": 4}, "units in the last place"),
        ({"r_add.threads": 8}, "2 cores"),
        ({"r_add.unheard": 1}, "not decided here"),
        ({"r_add.tile": "wide"}, "cannot be 'wide'"),
        ({"cut.linear": "stored"}, "not decided here"),
    ],
)
def test_illegal_points_say_why(values: dict[str, object], why: str) -> None:
    planned = space_of("mish").plan(Point.of(values))  # type: ignore[arg-type]
    assert planned.lowered is None and why in (planned.illegal or "")


def test_a_decision_that_another_removes_is_not_decided_any_more() -> None:
    space = space_of("pooled")
    window = next(d for d in space.decisions() if d.name.endswith(".separable"))
    owner = next(d for d in space.decisions() if d.name == "own.max_pool2d_with_indices")
    planned = space.plan(Point.of({window.name: False, owner.name: "torch"}))
    assert planned.lowered is None and window.name in (planned.illegal or "")


def test_lanes_that_jump_through_memory_are_no_choice() -> None:
    """What is the same for all lanes, as the weight of a column, does not make up for it."""
    norm = nn.Sequential(nn.GELU(approximate="tanh"), nn.LayerNorm(1024))
    space = Space(capture_module(norm, (torch.randn(4096, 1024),)), LOWERING, MACHINE)
    along_rows = space.plan(Point.of({"r_native_layer_norm.vector_axis": "i0"}))
    assert along_rows.lowered is None and "strided" in (along_rows.illegal or "")
    side_by_side = {"r_native_layer_norm.rows_together": 4}
    assert space.plan(Point.of(side_by_side)).lowered is not None
    jammed = space.plan(Point.of(side_by_side | {"r_native_layer_norm.jam": 2}))
    assert jammed.lowered is None and "for minutes" in (jammed.illegal or "")
