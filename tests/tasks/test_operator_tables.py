"""Composite operators are looked up once a capture, and all of them are."""

import pytest
import torch
from torch import nn
from torch._export import utils

from kernelwright.tasks import operator_tables
from kernelwright.tasks.capture import capture_module
from kernelwright.tasks.operator_tables import filled_once


def test_an_operator_that_was_registered_after_a_capture_is_looked_up_in_the_next() -> None:
    capture_module(nn.ReLU(), [torch.ones(2)])
    library = torch.library.Library("kernelwright_test_tables", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: x + x, "CompositeImplicitAutograd")
    assert "doubled" not in list(torch.ops.kernelwright_test_tables)
    capture_module(nn.ReLU(), [torch.ones(2)])
    assert "doubled" in list(torch.ops.kernelwright_test_tables)


def test_torch_looks_its_operators_up_again_afterwards() -> None:
    fill = utils._materialize_cpp_cia_ops
    with pytest.raises(ZeroDivisionError), filled_once():
        assert utils._materialize_cpp_cia_ops is not fill
        raise ZeroDivisionError
    assert utils._materialize_cpp_cia_ops is fill


def test_a_torch_without_that_function_captures_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_tables, "_FILL", None)
    assert capture_module(nn.ReLU(), [torch.ones(2)]).graph is not None
