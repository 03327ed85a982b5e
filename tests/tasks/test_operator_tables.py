"""Composite operators are looked up once a capture, and all of them are."""

import pytest
import torch
from torch import nn
from torch._export import utils

from kernelwright.tasks import operator_tables
from kernelwright.tasks.capture import capture_module
from kernelwright.tasks.operator_tables import small_tables


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
    with pytest.raises(ZeroDivisionError), small_tables():
        assert utils._materialize_cpp_cia_ops is not fill
        raise ZeroDivisionError
    assert utils._materialize_cpp_cia_ops is fill


class EveryWay(nn.Module):
    """Composite operators that torch takes apart itself, in Python, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = self.other(self.one(x.transpose(0, 1)))
        seen = self.attention(moved, moved, moved)[0]
        wide = nn.functional.interpolate(seen[None], scale_factor=2.0, mode="nearest")
        return torch.einsum("bij,bkj->bik", wide[0], wide[0]).std() + seen.flatten().outer(seen[0, 0])


def test_graphs_are_those_of_torch_s_whole_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = EveryWay().eval(), [torch.randn(3, 5, 8)]
    small = capture_module(model, inputs)
    monkeypatch.setattr(operator_tables, "_FILL", None)
    assert str(small.graph) == str(capture_module(model, inputs).graph)


def test_a_torch_without_that_function_captures_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_tables, "_FILL", None)
    assert capture_module(nn.ReLU(), [torch.ones(2)]).graph is not None
