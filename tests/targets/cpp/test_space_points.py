"""Points of the space, drawn by lot: what lowers compiles and computes what the reference does."""

import types
from pathlib import Path

import pytest
import torch
from tests.marks import mostly_slow

from kernelwright.core.machine import Machine
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task, Workload
from kernelwright.ir.plan_lowering import write_source
from kernelwright.ir.space import Space
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

MACHINE = Machine(cores=2, vector_bytes=32)
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n"
BODIES = {
    "softmax": ("x", "torch.softmax(x * 2, 1)", "(130, 300)"),
    "pooling": ("x", "F.max_pool2d(F.relu(x), 3, 2, 1) + 1", "(3, 5, 21, 23)"),
    "averages": ("x", "F.avg_pool3d(x, 3, 2, 1).exp()", "(2, 3, 9, 11, 13)"),
    "layer_norm": ("x", "F.gelu(F.layer_norm(x, (257,)))", "(65, 257)"),
    "columns": ("x", "torch.sigmoid(x).sum(0) + x.amax(0)", "(301, 130)"),
    "product": ("x", "F.mish(x @ x.t()).mean(1)", "(120, 64)"),
    "scan": ("x", "torch.cumsum(x * 0.5, 1)", "(33, 200)"),
    "chain": ("x", "torch.tanh(x).softmax(0) * torch.relu(x - x.mean(1, keepdim=True))", "(64, 70)"),
}


def task_of(name: str) -> Task:
    argument, body, shape = BODIES[name]
    source = f"{HEAD}class Model(nn.Module):\n    def forward(self, {argument}):\n        return {body}\n\n"
    source += f"def get_inputs():\n    return [torch.randn{shape}]\n\ndef get_init_inputs():\n    return []\n"
    return Task(name=name, source=source)


def run_points(name: str, count: int, seed: int) -> int:
    """Build and run points of a task's space; return how many were programs."""
    task, workload = task_of(name), Workload()
    captured = capture_task(task, workload)
    space = Space(captured, target_of(CPU_CPP).lowering, MACHINE)
    namespace = load_namespace(task, workload)
    inputs = draw_inputs(task, namespace, seed=5)
    want = construct_model(task, namespace, seed=0)(*inputs)
    n_programs = 0
    for planned in space.sample(count, seed, changes=6):
        if planned.lowered is None:
            assert planned.illegal
            continue
        source = write_source(task, {workload.name: planned.lowered}, planned.plan, render_cpp_candidate)
        module = types.ModuleType("candidate")
        exec(compile(source, "candidate.py", "exec"), module.__dict__)
        got = module.ModelNew()(*inputs)
        where = f"{name} at {planned.point}"
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-5, msg=lambda m, w=where: f"{w}: {m}")
        n_programs += 1
    return n_programs


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", mostly_slow(BODIES, "pooling", "softmax"))
def test_points_compute_what_the_reference_does(name: str) -> None:
    assert run_points(name, count=2, seed=1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_more_points_compute_what_the_reference_does(name: str) -> None:
    assert run_points(name, count=8, seed=2) > 3
