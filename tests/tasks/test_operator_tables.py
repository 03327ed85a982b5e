"""Composite operators are looked up once a capture, and all of them are."""

from typing import Any

import pytest
import torch
from torch import nn
from torch._export import utils
from torch.export import exported_program

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


def torch_s_own() -> tuple[Any, Any]:
    return utils._materialize_cpp_cia_ops, exported_program._override_composite_implicit_decomp


def test_torch_s_own_functions_are_back_afterwards() -> None:
    before = torch_s_own()
    with pytest.raises(ZeroDivisionError), small_tables():
        assert not set(before) & set(torch_s_own())
        raise ZeroDivisionError
    assert torch_s_own() == before


def test_operators_that_their_own_cpp_decomposes_are_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []

    def noting(table: dict[Any, Any]) -> Any:
        registered.extend(table)
        return override(table)

    override = exported_program._override_composite_implicit_decomp
    monkeypatch.setattr(operator_tables, "_OVERRIDE", noting)
    monkeypatch.setattr(
        exported_program, "_override_composite_implicit_decomp", noting
    )  # back after the test
    capture_module(nn.ReLU(), [torch.ones(2)])
    aten = torch.ops.aten
    assert {aten.scaled_dot_product_attention.default, aten.linear.default} <= set(registered)
    assert aten.einsum.default not in registered


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


@pytest.mark.parametrize("missing", ["_FILL", "_OVERRIDE"])
def test_a_torch_without_a_function_captures_as_before(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_tables, missing, None)
    assert capture_module(nn.ReLU(), [torch.ones(2)]).graph is not None
