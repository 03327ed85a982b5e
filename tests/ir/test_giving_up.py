"""Lowering that gives up says why; the graph still computes the same through torch."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.core.errors import LoweringError
from kernelwright.ir import lower as lowering
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Call, Region
from kernelwright.tasks.capture import Captured, capture_module

from .lowering_checks import Wrap

NUMBERS = (torch.arange(8), torch.rand(4, 8))


def captured() -> Captured:
    return capture_module(Wrap(lambda x: F.gelu(x) * 2 + 1), (torch.rand(4, 8),))


def test_a_graph_that_is_lowered_gave_nothing_up() -> None:
    program = lower(captured())
    assert program.given_up is None and any(isinstance(step, Region) for step in program.steps)


def test_a_graph_that_is_too_large_says_how_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "MAX_NODES", 2)
    program = lower(captured())
    assert program.given_up is not None and program.given_up.endswith("lowering takes at most 2")
    assert not any(isinstance(step, Region) for step in program.steps)


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (ZeroDivisionError("modulo by\nzero"), "a defect of ours: ZeroDivisionError: modulo by zero"),
        (LoweringError("more than 60 values could not be fused"), "more than 60 values could not be fused"),
    ],
)
def test_a_planted_defect_of_the_compiler_is_named(
    planted: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(captured: Captured, options: FusionOptions) -> None:
        raise planted

    monkeypatch.setattr(lowering, "fuse", fail)
    assert lower(captured()).given_up == told


def test_library_calls_on_request_are_no_giving_up() -> None:
    assert lower(captured(), FusionOptions(enabled=False)).given_up is None


def test_a_form_that_is_not_generated_costs_its_own_operator_alone() -> None:
    program = lower(capture_module(Wrap(lambda n, x: ((n + 1) ** 3, n // (n + 1), F.gelu(x) * 2)), NUMBERS))
    left = {step.target for step in program.steps if isinstance(step, Call) and not step.is_view}
    assert program.given_up is None and any(isinstance(step, Region) for step in program.steps)
    assert left == {"torch.ops.aten.pow.Tensor_Scalar", "torch.ops.aten.div.Tensor_mode"}
