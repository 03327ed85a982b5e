"""Points of our own products, convolutions and attention on a GPU: what they compute, the same each time."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.targets.cpp.test_attention import attention
from tests.targets.cpp.test_products import task_of
from tests.targets.triton.own import CLOSE, planned, source_of

from kernelwright.core.plan import ParamValue
from kernelwright.core.task import Workload
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

ON_A_DEVICE = 2 * CLOSE
"""GPUs add 512 products one after the other where the interpreter adds pairs: 2.1e-5 was seen on an H200."""
TILE: dict[str, ParamValue] = {"block": 32, "columns": 32, "step": 16}
MATRICES = [(200, 512), (512, 136), (136,)]
PRODUCT = "torch.tanh(x0 @ x1 + x2) * 2"
HEADS = [(2, 4, 200, 64)] * 3
Case = tuple[str, str, list[tuple[int, ...]], dict[str, ParamValue]]
POINTS: dict[str, Case] = {
    "product": ("None", PRODUCT, MATRICES, TILE),
    "default tile": ("None", PRODUCT, MATRICES, {}),
    "split": ("None", PRODUCT, MATRICES, TILE | {"split": 4}),
    "persistent": ("None", PRODUCT, MATRICES, TILE | {"programs": 7, "group": 1}),
    "stages": ("None", PRODUCT, MATRICES, TILE | {"stages": 4}),
    "prologue": ("None", "(torch.exp(x0) - 3.0) @ x1", MATRICES[:2], TILE),
    "convolution": ("nn.Conv2d(16, 40, 3, padding=1)", "torch.relu(self.layer(x0))", [(2, 16, 30, 31)], TILE),
    "attention": ("None", attention("x0, x1, x2"), HEADS, {}),
    "causal": ("None", attention("x0, x1, x2", rest=", is_causal=True"), HEADS, {"step": 16, "stages": 3}),
}


def loaded(source: str, folder: Path) -> ModuleType:
    """Import a candidate from a file: Triton reads its source."""
    file = folder / "own_candidate.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.gpu
@pytest.mark.parametrize("name", POINTS)
def test_a_point_is_right_on_the_device(name: str, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch can use")
    layer, body, shapes, moves = POINTS[name]
    task = task_of(layer, body, *shapes)
    namespace = load_namespace(task, Workload())
    inputs = draw_inputs(task, namespace, seed=5)
    reference = construct_model(task, namespace, seed=0)
    own = loaded(source_of(task, *planned(task, moves)), tmp_path).ModelNew()
    own.load_state_dict(reference.state_dict())
    own.cuda()
    with torch.no_grad():
        got = [own(*(x.cuda() for x in inputs)).cpu() for _ in range(2)]
        want = reference.double()(*(x.double() for x in inputs))
    scale = want.abs().max()
    assert ((got[0].double() - want).abs().max() / scale).item() < ON_A_DEVICE
    assert torch.equal(got[0], got[1])  # the order of additions depends on block sizes alone


def test_the_points_are_those_that_can_be_planned() -> None:
    for layer, body, shapes, moves in POINTS.values():
        task = task_of(layer, body, *shapes)
        assert "tl.dot(" in source_of(task, *planned(task, moves))
