"""Candidate files: self-contained, same weights, same results, clear about wrong shapes."""

import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Machine
from kernelwright.core.task import Task, Workload
from kernelwright.ir.lower import lower
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.cpp.schedules import with_default_schedules
from kernelwright.targets.module_file.constructor import constructor_source
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

SOURCE = '''
import torch
import torch.nn as nn

WIDTH = 24
SCALE = 0.5
batch_size = 6


def make_linear(n):
    return nn.Linear(n, WIDTH)


class Model(nn.Module):
    """Reference."""

    def __init__(self, n):
        super(Model, self).__init__()
        self.linear = make_linear(n)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("shift", torch.randn(WIDTH))

    def tail(self, x):
        return torch.tanh(x) * SCALE

    def forward(self, x, y=None):
        return self.tail(self.norm(self.linear(x)) + self.shift).sum(dim=1)


def get_inputs():
    return [torch.rand(batch_size, 10)]


def get_init_inputs():
    return [10]
'''


def candidate(task: Task) -> str:
    programs = {}
    for workload in task.workloads:
        captured = capture_task(task, workload)
        programs[workload.name] = (captured, with_default_schedules(lower(captured), Machine(cores=2)))
    return render_cpp_candidate(task, programs, "1. seed")


def load(source: str) -> types.ModuleType:
    module = types.ModuleType("candidate")
    exec(compile(source, "candidate.py", "exec"), module.__dict__)
    return module


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_candidate_draws_the_same_weights_and_computes_the_same() -> None:
    task = Task(name="t", source=SOURCE)
    namespace = load_namespace(task, task.workloads[0])
    module = load(candidate(task))
    reference = construct_model(task, namespace, seed=3)
    torch.manual_seed(3)
    new = module.ModelNew(10)
    assert list(new.state_dict()) == list(reference.state_dict())
    assert all(
        torch.equal(a, b)
        for a, b in zip(new.state_dict().values(), reference.state_dict().values(), strict=True)
    )
    inputs = draw_inputs(task, namespace, seed=1)
    for _ in range(2):
        torch.testing.assert_close(new(*inputs), reference(*inputs).detach(), rtol=1e-5, atol=1e-5)
    for name, buffer in reference.named_buffers():
        torch.testing.assert_close(new.get_buffer(name), buffer, rtol=1e-5, atol=1e-6)


def test_outputs_are_fresh_and_weights_are_read_anew() -> None:
    task = Task(name="t", source=SOURCE)
    new = load(candidate(task)).ModelNew(10)
    x = torch.rand(6, 10)
    first = new(x)
    kept = first.clone()
    with torch.no_grad():
        new.shift.fill_(3.0)
    second = new(x)
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, kept) and not torch.allclose(first, second)


def test_wrong_shapes_are_refused_in_one_line() -> None:
    new = load(candidate(Task(name="t", source=SOURCE))).ModelNew(10)
    with pytest.raises(ValueError, match=r"made for .*\(6, 10\).* got \(5, 10\)") as caught:
        new(torch.rand(5, 10))
    assert "\n" not in str(caught.value)


def test_a_graph_of_gradients_is_never_cut_silently() -> None:
    new = load(candidate(Task(name="t", source=SOURCE))).ModelNew(10)
    x = torch.rand(6, 10, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"no gradients: call it under torch\.no_grad\(\)"):
        new(x)
    with torch.no_grad():
        assert new(x).shape == (6,)


def test_other_strides_are_accepted() -> None:
    new = load(candidate(Task(name="t", source=SOURCE))).ModelNew(10)
    x = torch.rand(10, 6).t()
    new.eval()
    torch.testing.assert_close(new(x), new(x.contiguous()))


def test_workloads_are_told_apart_by_shape() -> None:
    workloads = (Workload(name="six"), Workload(name="nine", overrides={"batch_size": 9}))
    new = load(candidate(Task(name="t", source=SOURCE, workloads=workloads))).ModelNew(10)
    assert new(torch.rand(6, 10)).shape == (6,) and new(torch.rand(9, 10)).shape == (9,)


def test_sources_for_the_compiler_are_plain_literals_and_nothing_of_ours_is_imported() -> None:
    source = candidate(Task(name="t", source=SOURCE))
    tree = ast.parse(source)
    values = {
        s.targets[0].id: ast.literal_eval(s.value)
        for s in tree.body
        if isinstance(s, ast.Assign)
        and isinstance(s.targets[0], ast.Name)
        and s.targets[0].id in ("CPP_SOURCE", "CXX_FLAGS")
    }
    assert 'extern "C"' in values["CPP_SOURCE"] and "-O3" in values["CXX_FLAGS"]
    assert "kernelwright" not in {
        n.name.split(".")[0] for s in tree.body if isinstance(s, ast.Import) for n in s.names
    }
    assert "get_inputs" not in source and "batch_size" not in source


def test_candidate_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(
        candidate(Task(name="t", source=SOURCE)) + "\nprint(tuple(ModelNew(10)(torch.rand(6, 10)).shape))\n"
    )
    done = subprocess.run([sys.executable, "-I", str(file)], capture_output=True, text=True)
    assert done.stdout.strip() == "(6,)", done.stderr


class Tied(nn.Module):
    """Tied weights and a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.body[2].weight = self.body[0].weight
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.body(x) * self.mask, dim=-1)


def test_live_module_becomes_a_module_of_declared_tensors(tmp_path: Path) -> None:
    module = Tied()
    x = torch.rand(8, 8)
    task = task_from_module(module, (x,), name="tied", folder=tmp_path)
    new = load(candidate(task)).ModelNew()
    new.load_state_dict(module.state_dict())
    torch.testing.assert_close(new(x), module(x).detach(), rtol=1e-5, atol=1e-6)
    assert new.body is not None and len(list(new.parameters())) == len(list(module.parameters()))


def test_constructor_keeps_what_it_uses_and_drops_the_rest() -> None:
    needed, model = constructor_source(SOURCE)
    text = needed + ast.unparse(model)
    assert "class ModelNew" in text and "super(ModelNew, self)" in text and "make_linear" in text
    assert not any(gone in text for gone in ("def forward", "def tail", "SCALE", "get_inputs", "batch_size"))


def test_source_without_model_is_refused() -> None:
    with pytest.raises(LoweringError, match="class Model"):
        constructor_source("x = 1")
