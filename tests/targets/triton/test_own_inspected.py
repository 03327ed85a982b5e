"""Points of products, convolutions and attention of our own, built where no GPU is: resources are known."""

import importlib.util

import pytest
from tests.targets.cpp.test_attention import attention
from tests.targets.cpp.test_products import task_of
from tests.targets.triton.own import planned, source_of

from kernelwright.core.plan import ParamValue
from kernelwright.targets.gpu.inspect.inspection import KernelOutcome
from kernelwright.targets.gpu.inspect.run import find_device, inspect_candidate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton's compiler"),
]
PAIRS = (
    ("convolution", "sm_80"), ("convolution", "gfx942"), ("split product", "sm_90"),
    ("shared product", "sm_90"), ("shared product", "gfx942"),
    ("attention", "sm_80"), ("attention", "gfx942"),
)  # fmt: skip
"""Every case and every target; all twelve take two minutes."""
TILE: dict[str, ParamValue] = {"block": 32, "columns": 32, "step": 16}
CASES: dict[str, tuple[str, str, list[tuple[int, ...]], dict[str, ParamValue]]] = {
    "convolution": ("nn.Conv2d(16, 32, 3, padding=1)", "torch.relu(self.layer(x0))", [(2, 16, 32, 32)], TILE),
    "split product": ("None", "torch.relu(x0 @ x1)", [(64, 1024), (1024, 64)], TILE | {"split": 4}),
    "shared product": ("None", "torch.relu(x0 @ x1)", [(64, 1024), (1024, 96)], TILE | {"stream": 5}),
    "attention": ("None", attention("x0, x1, x2", rest=", is_causal=True"), [(2, 4, 256, 64)] * 3, {}),
}
PATIENCE_S = 1200.0
"""Seconds on an idle machine, minutes on a busy one."""


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_a_point_is_built_with_its_resources(name: str, target: str) -> None:
    layer, body, shapes, moves = CASES[name]
    task = task_of(layer, body, *shapes)
    source = source_of(task, *planned(task, moves))
    found = inspect_candidate(source, find_device(target), task_source=task.source, timeout_s=PATIENCE_S)
    assert found.can_run and found.kernels, (found.detail, found.log)
    for kernel in found.kernels:
        facts = kernel.facts
        assert kernel.outcome in (KernelOutcome.FITS, KernelOutcome.SPILLS) and "aot.spills" in facts
        assert facts["gpu.architecture"] == target
        for fact in ("aot.registers", "aot.occupancy", "aot.resident_blocks", "aot.instructions"):
            assert facts[fact], fact
    tiles = found.kernels[0].facts
    assert name != "attention" or tiles["aot.spills"] == 0
    assert tiles["aot.shared_bytes"]
    assert bool(tiles["aot.matrix_instructions"]) == target.startswith("gfx")  # exact float32 on NVIDIA: none
