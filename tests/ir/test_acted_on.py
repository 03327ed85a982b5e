"""Places that guidance acts on: what a graph or a program has of each kind, and what it has not."""

import pytest

from kernelwright.core.machine import Machine
from kernelwright.core.plan import Plan
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task
from kernelwright.ir.acted_on import KINDS, places
from kernelwright.ir.plan_lowering import LoweredPlan, lower_plan
from kernelwright.skills.load import load_skills
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import capture_task

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, {names}):
        return {result}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def lowered(result: str, **inputs: str) -> LoweredPlan:
    drawn = ", ".join(inputs.values())
    task = Task(name="t", source=SOURCE.format(names=", ".join(inputs), result=result, inputs=drawn))
    captured = capture_task(task, task.workloads[0])
    return lower_plan(captured, Plan(), {}, target_of(CPU_CPP).lowering, Machine(cores=2))


@pytest.fixture(scope="module")
def graphs() -> dict[str, LoweredPlan]:
    return {
        "pointwise": lowered("torch.relu(x) + 1", x="torch.randn(64, 64)"),
        "product": lowered("torch.relu(x @ x)", x="torch.randn(128, 128)"),
        "rows": lowered("torch.softmax(x, 1)", x="torch.randn(17, 33)"),
        "triangle": lowered("torch.tril(x) * 2", x="torch.randn(32, 32)"),
        "scatter": lowered(
            "torch.zeros(8, 16).index_add(0, i, x)", x="torch.randn(32, 16)", i="torch.randint(0, 8, (32,))"
        ),
        "turned": lowered("torch.relu(x.t()).contiguous()", x="torch.randn(48, 64)"),
    }


@pytest.mark.parametrize(
    ("kind", "graph", "other"),
    [
        ("product", "product", "rows"),
        ("epilogue", "product", "pointwise"),
        ("aliased-rows", "product", "pointwise"),
        ("reduction", "rows", "pointwise"),
        ("transcendental", "rows", "product"),
        ("ragged", "rows", "pointwise"),
        ("masked", "triangle", "pointwise"),
        ("branching", "triangle", "pointwise"),
        ("scatter", "scatter", "rows"),
        ("launches", "product", "pointwise"),
        ("kernel", "pointwise", ""),
    ],
)
def test_a_kind_is_found_where_it_is_and_nowhere_else(
    graphs: dict[str, LoweredPlan], kind: str, graph: str, other: str
) -> None:
    assert places(graphs[graph], kind)
    assert not other or not places(graphs[other], kind)


def test_every_kind_answers_on_every_program(graphs: dict[str, LoweredPlan]) -> None:
    for one in graphs.values():
        assert all(isinstance(name, str) for kind in KINDS for name in places(one, kind))


def test_guidance_of_the_library_names_kinds_that_exist() -> None:
    named = {skill.acts_on for skill in load_skills().values() if skill.acts_on is not None}
    assert named <= set(KINDS)
