"""Structure facts of programs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.core.evidence import METRICS
from kernelwright.ir.facts import program_facts
from kernelwright.ir.lower import lower
from kernelwright.tasks.capture import capture_module

from .lowering_checks import Wrap

X = torch.randn(4, 3, 8, 8)
W = torch.randn(5, 3, 3, 3)

STRUCTURES: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, w: F.gelu(x),
    "reduction": lambda x, w: torch.softmax(x, 1),
    "scan": lambda x, w: torch.cumsum(x, 1),
    "window": lambda x, w: F.max_pool2d(x, 2),
    "anchor": lambda x, w: F.conv2d(x, w),
    "anchor_chain": lambda x, w: F.conv2d(x, w).relu(),
    "mixed": lambda x, w: F.max_pool2d(x, 2).sum(1),
}


def facts(function: Callable[..., Any], *inputs: torch.Tensor) -> dict[str, Any]:
    captured = capture_module(Wrap(function), inputs)
    return dict(program_facts(captured, lower(captured)))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_structure(structure: str) -> None:
    assert facts(STRUCTURES[structure], X, W)["graph.structure"] == structure


def test_every_fact_is_a_known_metric() -> None:
    found = facts(STRUCTURES["anchor_chain"], X, W)
    assert set(found) <= set(METRICS) and "program.n_regions" in found


def test_materialised_bytes_are_those_of_intermediates() -> None:
    found = facts(STRUCTURES["anchor_chain"], X, W)
    assert found["program.materialised_bytes"] == 4 * 5 * 6 * 6 * 4
    assert found["graph.anchor_flops_fraction"] > 0.9 and found["graph.n_opaque"] == 0


def test_operators_left_to_torch_are_opaque() -> None:
    assert facts(lambda x: torch.sort(x, 1)[0] + 1, X)["graph.n_opaque"] == 1
