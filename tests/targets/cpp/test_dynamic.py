"""Kernels whose extents are known when they run: right at every extent, or refused."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from kernelwright.core.dynamic import parse_dynamic
from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Move, Plan
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Mode, Task
from kernelwright.ir.plan_lowering import LoweredPlan, lower_plan, write_source
from kernelwright.ir.program import Call, Region
from kernelwright.targets.registry import target_of
from kernelwright.tasks.dynamic import capture_dynamic, dynamic_task
from kernelwright.tasks.namespace import construct_model, load_namespace

HIGH = 70
FORWARDS = {
    "pointwise": ("x", "torch.relu(x * y + 1.0), torch.sigmoid(x)", "(9, 37)"),
    "softmax": ("x", "torch.softmax(x * y, -1)", "(9, 130)"),
    "norm": ("x", "nn.functional.layer_norm(nn.functional.gelu(x), (48,)) + y", "(9, 3, 48)"),
    "vector": ("x", "torch.tanh(x) * y", "(9,)"),
    "product": ("x", "torch.relu(x @ self.weight.t() + self.bias) * y.sum(-1, keepdim=True)", "(9, 24)"),
    "column sums": ("x", "(x * y).sum(0)", "(9, 300)"),
    "images": ("x", "nn.functional.max_pool2d(x + y, 3, 2, 1)", "(9, 2, 11, 13)"),
    "transposed": ("x", "(x * 2 + y).transpose(0, 1).contiguous()", "(9, 19)"),
    "flattened": ("x", "(x - y).flatten(0, 1).cumsum(-1)", "(9, 4, 20)"),
    "outer": ("x", "x[:, None] * y[None, :]", "(9,)"),
}
SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 24))
        self.bias = nn.Parameter(torch.randn(16))

    def forward(self, x, y):
        return {result}


def get_inputs():
    return [torch.randn{shape}, torch.randn{shape}]


def get_init_inputs():
    return []
"""


def _task(result: str, shape: str, dynamic: str = f"batch:1-{HIGH}") -> Task:
    source = SOURCE.format(result=result, shape=shape)
    return dynamic_task(Task(name="t", source=source, mode=Mode.EVAL), [parse_dynamic(dynamic)])


def _lowered(task: Task) -> LoweredPlan:
    return lower_plan(capture_dynamic(task), Plan(), {}, target_of(CPU_CPP).lowering)


def _written(task: Task, lowered: LoweredPlan) -> str:
    write = target_of(CPU_CPP).writer
    assert write is not None
    return write_source(task, {task.workloads[0].name: lowered}, Plan(), write)


@cache
def _made(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return reference and kernel with the same weights."""
    _, result, shape = FORWARDS[name]
    task = _task(result, shape)
    lowered = _lowered(task)
    assert any(isinstance(step, Region) for step in lowered.program.steps), lowered.program.given_up
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(_written(task, lowered), namespace)
    model = construct_model(task, load_namespace(task, task.workloads[0]), seed=0)
    kernel: nn.Module = namespace["ModelNew"]()
    kernel.load_state_dict(model.state_dict())
    return model, kernel


QUICK = ("pointwise", "softmax", "product")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FORWARDS]
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(extent=st.one_of(st.sampled_from([1, 2, 15, 16, 17, HIGH]), st.integers(1, HIGH)))
def test_a_kernel_is_right_at_every_extent(name: str, extent: int) -> None:
    model, kernel = _made(name)
    inner = eval(FORWARDS[name][2])[1:]
    x, y = torch.randn(extent, *inner), torch.randn(extent, *inner)
    with torch.no_grad():
        expected, found = model(x, y), kernel(x, y)
    for one, other in zip(_several(expected), _several(found), strict=True):
        assert _layout(one) == _layout(other)
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


def _layout(value: torch.Tensor) -> list[int]:
    """Return the strides that mean something."""
    return [stride for size, stride in zip(value.shape, value.stride(), strict=True) if size != 1]


def _several(value: Any) -> tuple[torch.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_outside_the_range_a_kernel_raises() -> None:
    _, kernel = _made("pointwise")
    with pytest.raises(ValueError, match=f"extent_batch from 1 to {HIGH}"):
        kernel(torch.randn(HIGH + 1, 37), torch.randn(HIGH + 1, 37))
    with pytest.raises(ValueError, match="made for"):
        kernel(torch.randn(5, 37), torch.randn(6, 37))


@pytest.mark.slow
def test_two_extents_vary_together() -> None:
    source = SOURCE.format(result="torch.softmax(x * 2, -1) + y", shape="(4, 6, 40)")
    axes = [parse_dynamic("rows=x:0,y:0:1-9"), parse_dynamic("columns=x:1,y:1:1-30")]
    task = dynamic_task(Task(name="t", source=source, mode=Mode.EVAL), axes)
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(_written(task, _lowered(task)), namespace)
    for a, b in [(1, 1), (9, 30), (4, 17), (1, 30)]:
        x, y = torch.randn(a, b, 40), torch.randn(a, b, 40)
        with torch.no_grad():
            torch.testing.assert_close(namespace["ModelNew"]()(x, y), torch.softmax(x * 2, -1) + y)


def test_a_value_that_depends_on_the_extent_leaves_the_operators_to_torch() -> None:
    lowered = _lowered(_task("(x * y).mean(0)", "(9, 30)"))
    assert "cannot serve all extents" in (lowered.program.given_up or "")
    assert all(isinstance(step, Call) for step in lowered.program.steps)


def test_a_kernel_that_would_hold_for_one_size_is_not_written() -> None:
    task = _task("torch.softmax(x + y, 0)[:, 0] * 1.0", "(9, 1)", "batch:1-70")
    lowered = _lowered(task)
    try:
        source = _written(task, lowered)
    except LoweringError as error:
        assert "none for all of them" in str(error)
        return
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(source, namespace)
    x, y = torch.randn(33, 1), torch.randn(33, 1)
    with torch.no_grad():
        torch.testing.assert_close(namespace["ModelNew"]()(x, y), torch.softmax(x + y, 0)[:, 0])


def test_a_generated_product_is_right_or_refused() -> None:
    task = _task("torch.relu(x @ self.weight.t() + y[:, :16])", "(9, 24)")
    captured = capture_dynamic(task)
    product = next(node.name for node in captured.graph.nodes if "mm" in str(node.target))
    plan = Plan().then(Move(skill="own-product", region=product, params={}, why="a product of our own"))
    lowering = target_of(CPU_CPP).lowering
    lowered = lower_plan(captured, plan, {"own-product": "fusion:own-product"}, lowering)
    try:
        source = _written(task, lowered)
    except LoweringError as error:
        assert "fixed sizes" in str(error)
        return
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(source, namespace)
    kernel = namespace["ModelNew"]()
    for extent in (1, 2, 17, HIGH):
        x, y = torch.randn(extent, 24), torch.randn(extent, 24)
        with torch.no_grad():
            expected = torch.relu(x @ kernel.weight.t() + y[:, :16])
            torch.testing.assert_close(kernel(x, y), expected, rtol=1e-4, atol=1e-4)
