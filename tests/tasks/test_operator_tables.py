"""Composite operators are looked up once a capture, and all of them are."""

import pytest
import torch
from torch import nn
from torch._export import utils

from kernelwright.tasks.capture import capture_module
from kernelwright.tasks.operator_tables import filled_once


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.kernelwright_test_tables.doubled(x)  # type: ignore[no-any-return]


def test_an_operator_that_was_registered_after_a_capture_is_taken_apart_in_the_next() -> None:
    capture_module(nn.ReLU(), [torch.ones(2)])
    library = torch.library.Library("kernelwright_test_tables", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: x + x, "CompositeImplicitAutograd")
    captured = capture_module(Doubled(), [torch.ones(2)])
    called = [node.target for node in captured.graph.nodes if node.op == "call_function"]
    assert called == [torch.ops.aten.add.Tensor]


def test_torch_looks_its_operators_up_again_afterwards() -> None:
    fill = utils._materialize_cpp_cia_ops
    with pytest.raises(ZeroDivisionError), filled_once():
        assert utils._materialize_cpp_cia_ops is not fill
        raise ZeroDivisionError
    assert utils._materialize_cpp_cia_ops is fill
