"""A module with a dynamic axis: the kernel runs inside the range, the original outside it, and says so."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.dynamic import parse_dynamic
from kernelwright.core.plan import Plan
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Mode, Task
from kernelwright.delivery.making import Delivery, deliver
from kernelwright.delivery.runtime.calls import NotVerifiedError, strict
from kernelwright.delivery.saving import load, save
from kernelwright.ir.plan_lowering import lower_plan, write_source
from kernelwright.targets.registry import target_of
from kernelwright.tasks.dynamic import capture_dynamic, dynamic_task
from kernelwright.tasks.live import task_from_module

WIDTH, LOW, HIGH = 40, 2, 12


class Scores(nn.Module):
    """Nested inputs and outputs around a norm, a product and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 6)

    def forward(self, x: torch.Tensor, options: Any = None, scale: float = 1.0) -> dict[str, torch.Tensor]:
        y = nn.functional.gelu(self.norm(x)) * scale
        if options is not None:
            y = y + options["bias"]
        return {"hidden": y, "scores": torch.softmax(self.head(y), -1)}


def _inputs(extent: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return torch.randn(extent, 3, WIDTH), {"bias": torch.randn(extent, 3, WIDTH)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Delivery]:
    torch.manual_seed(0)
    module = Scores().eval()
    folder = tmp_path_factory.mktemp("live")
    task = task_from_module(module, _inputs(8), name="scores", folder=folder)
    task = dynamic_task(task, [parse_dynamic(f"batch:{LOW}-{HIGH}")])
    return module, _delivered(task, module)


def _delivered(task: Task, module: nn.Module | None) -> Delivery:
    target = target_of(CPU_CPP)
    lowered = lower_plan(capture_dynamic(task), Plan(), {}, target.lowering)
    assert target.writer is not None
    source = write_source(task, {task.workloads[0].name: lowered}, Plan(), target.writer)
    return deliver(Candidate(source=source), task, module)


def _require_equal(one: nn.Module, other: nn.Module, extent: int) -> None:
    x, options = _inputs(extent)
    with torch.no_grad():
        torch.testing.assert_close(one(x, options), other(x, options), rtol=1e-4, atol=1e-5)


def _counts(module: nn.Module) -> tuple[int, int]:
    found = module.report()  # type: ignore[operator]
    return found.kernel_calls, found.original_calls


def test_the_kernel_runs_inside_the_range_and_the_original_outside(made: tuple[nn.Module, Delivery]) -> None:
    module, delivery = made
    fast = copy.deepcopy(delivery.module)
    for extent in range(LOW - 1, HIGH + 2):
        _require_equal(fast, module, extent)
    assert _counts(fast) == (HIGH - LOW + 1, 2)
    (reason, _) = list(fast.report().reasons)  # type: ignore[operator]
    assert f"verified from {LOW} to {HIGH}" in reason


def test_inputs_of_different_extents_run_the_original(made: tuple[nn.Module, Delivery]) -> None:
    fast = copy.deepcopy(made[1].module)
    x, options = _inputs(5)
    with torch.no_grad():
        fast(x, {"bias": options["bias"][:1]})
    assert _counts(fast) == (0, 1)


def test_strict_mode_raises_outside_the_range(made: tuple[nn.Module, Delivery]) -> None:
    x, options = _inputs(HIGH + 1)
    with torch.no_grad(), strict(), pytest.raises(NotVerifiedError, match="verified from"):
        made[1].module(x, options)


def test_gradients_run_the_original(made: tuple[nn.Module, Delivery]) -> None:
    module, delivery = made
    fast = copy.deepcopy(delivery.module)
    x, options = _inputs(5)
    with pytest.warns(UserWarning, match="gradients are enabled"):
        fast(x, options)["scores"].sum().backward()
    module.zero_grad()
    module(x, options)["scores"].sum().backward()
    torch.testing.assert_close(fast.head.weight.grad, module.head.weight.grad)
    assert _counts(fast) == (0, 1)


def test_it_is_pickled_saved_and_loaded(made: tuple[nn.Module, Delivery], tmp_path: Path) -> None:
    module, delivery = made
    folder = save(delivery, tmp_path / "fast", cache_dir=tmp_path / "cache")
    for again in (pickle.loads(pickle.dumps(delivery.module)), load(folder), load(folder, module)):
        for extent in (LOW, 7, HIGH, HIGH + 1):
            _require_equal(again, module, extent)
        assert _counts(again)[1] == 1


@pytest.mark.slow
def test_it_is_compiled_and_exported_for_the_range(made: tuple[nn.Module, Delivery]) -> None:
    module, delivery = made
    fast = copy.deepcopy(delivery.module)
    compiled = torch.compile(fast, fullgraph=True, dynamic=True, backend="eager")
    for extent in (3, 5, HIGH):
        _require_equal(compiled, module, extent)
    assert _counts(fast)[1] == 0
    rows = torch.export.Dim("rows", min=LOW, max=HIGH)
    x, options = _inputs(5)
    with torch.no_grad():
        exported = torch.export.export(
            fast, (x, options), dynamic_shapes={"x": {0: rows}, "options": {"bias": {0: rows}}}
        )
        called = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
        assert any(name.startswith("kernelwright.scores") for name in called)
        _require_equal(exported.module(), module, 9)


FILE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, scale, x, y):
        return torch.relu(x + y) * scale


def get_inputs():
    return [2.0, torch.randn(4, 3), torch.randn(6, 1, 1)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_a_file_counts_its_inputs_and_the_module_its_tensors() -> None:
    task = Task(name="file", source=FILE, mode=Mode.EVAL)
    task = dynamic_task(task, [parse_dynamic("rows=x:0:2-9"), parse_dynamic("planes=y:0:2-7")])
    fast = _delivered(task, None).module
    with torch.no_grad():
        for rows, planes in ((2, 7), (9, 2), (5, 5), (10, 3)):
            x, y = torch.randn(rows, 3), torch.randn(planes, 1, 1)
            torch.testing.assert_close(fast(2.0, x, y), torch.relu(x + y) * 2.0)
    assert _counts(fast) == (3, 1)


def test_arguments_by_name_come_in_any_order(tmp_path: Path) -> None:
    class Gap(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) - y

    inputs = {"y": torch.randn(5, 4), "x": torch.randn(5, 4)}
    task = task_from_module(Gap(), (), kwargs=inputs, name="gap", folder=tmp_path)
    fast = _delivered(dynamic_task(task, [parse_dynamic("rows=x:0,y:0:1-9")]), Gap()).module
    x, y = torch.randn(7, 4), torch.randn(7, 4)
    with torch.no_grad():
        torch.testing.assert_close(fast(x=x, y=y), torch.tanh(x) - y)
    assert _counts(fast) == (1, 0)
