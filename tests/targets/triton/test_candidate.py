"""Triton candidate files: plain text that says what it does, for any device."""

import ast

import pytest
import torch
from tests.targets.triton.interpreted import Interpreter
from tests.targets.triton.judging import FEW, Judge

from kernelwright.core.errors import UserError
from kernelwright.core.plan import Plan
from kernelwright.core.task import Task
from kernelwright.ir.plan_lowering import known_lowerings, lower_plan, sites, write_source
from kernelwright.targets.cpp.lowering import LOWERING as CPP
from kernelwright.targets.device import DeviceKind
from kernelwright.targets.registry import find_target
from kernelwright.targets.triton.candidate import render_triton_candidate
from kernelwright.targets.triton.lowering import LOWERING
from kernelwright.tasks.capture import capture_task

SOURCE = """
import torch
import torch.nn as nn

width = 24


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return torch.softmax(torch.tanh(self.norm(self.linear(x))), dim=1) + torch.arange(width) * 0.5


def get_inputs():
    return [torch.rand(5, 10)]


def get_init_inputs():
    return [10]
"""


@pytest.fixture(scope="module")
def source() -> str:
    task = Task(name="t", source=SOURCE)
    carried = lower_plan(capture_task(task, task.workloads[0]), Plan(), {}, LOWERING)
    return write_source(task, {"default": carried}, Plan(), render_triton_candidate)


def test_the_file_is_plain_python_without_compiler_or_addresses(source: str) -> None:
    tree = ast.parse(source)
    doc = ast.get_docstring(tree) or ""
    assert "Floor of the generated kernels" in doc and "Steps:" in doc
    assert "import triton.language as tl" in source
    for word in ("ctypes", "data_ptr", "subprocess", "device('cpu')", "atomic"):
        assert word not in source
    kernels = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name.endswith("_kernel")]
    assert kernels and all("Floor:" in (ast.get_docstring(k) or "") for k in kernels)


def test_every_load_and_store_of_a_tile_has_a_mask(source: str) -> None:
    for line in source.splitlines():
        if ("tl.load(" in line or "tl.store(" in line) and "_ptr + " in line:
            assert "mask=" in line


def test_the_candidate_matches_the_reference_and_updates_its_buffers(
    interpreter: Interpreter, source: str
) -> None:
    judge = Judge(Task(name="t", source=SOURCE))
    for trial in judge.trials(FEW):
        assert not torch.equal(trial.after["norm.running_mean"], trial.state["norm.running_mean"])
        judge.check(trial, interpreter.forward(source, judge.init, trial.state, trial.inputs))


def test_lowerings_and_sites_are_those_of_the_language() -> None:
    task = Task(name="t", source=SOURCE)
    carried = lower_plan(capture_task(task, task.workloads[0]), Plan(), {}, LOWERING)
    assert "schedule:triton-warps" in known_lowerings(LOWERING) - known_lowerings(CPP)
    assert sites(carried, "schedule:triton-warps") and not sites(carried, "schedule:unroll")


def test_a_gpu_target_is_known_and_not_run_here() -> None:
    assert find_target("cuda/triton", to_run=False).name.language == "triton"
    with pytest.raises(UserError, match="'hip/triton' needs a GPU"):
        find_target("hip/triton", has_device=lambda kind: False)


def test_a_gpu_target_is_run_where_its_own_kind_of_device_is() -> None:
    def has_device(kind: DeviceKind) -> bool:
        return kind.name == "cuda"

    assert find_target("cuda/triton", has_device=has_device).name.device == "cuda"
    with pytest.raises(UserError, match="'hip/triton' needs a GPU"):
        find_target("hip/triton", has_device=has_device)
