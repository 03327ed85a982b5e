"""The delivered module: an instance of the original's class with the original's own parameters."""

import pytest
import torch
from torch import nn

from kernelwright.api.delivering import load_winner, positional_inputs
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError

SCALE = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        if x.shape[-1] != 3:
            raise ValueError("not verified")
        return x * self.weight + 0.0
"""
NESTED = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        first = torch.nn.Module()
        first.weight = torch.nn.Parameter(torch.ones(2, 2))
        first.bias = torch.nn.Parameter(torch.ones(2))
        self.add_module("0", first)

    def forward(self, x):
        first = getattr(self, "0")
        return torch.relu(torch.nn.functional.linear(x, first.weight, first.bias))
"""


class Scale(nn.Module):
    """Has an attribute and a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.title = "mine"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight

    def doubled(self) -> torch.Tensor:
        return self.weight * 2


def test_it_has_the_originals_class_attributes_methods_and_parameters() -> None:
    module = Scale().eval()
    fast = load_winner(Candidate(source=SCALE), module)
    assert isinstance(fast, Scale) and type(fast).__name__ == "Scale" and not fast.training
    assert fast.weight is module.weight and fast.title == "mine"
    assert torch.equal(fast.doubled(), module.doubled())
    with torch.no_grad():
        x = torch.randn(4, 3)
        assert torch.equal(fast(x), module(x)) and torch.equal(fast(x=x), module(x))


def test_what_was_not_verified_runs_the_original() -> None:
    module = Scale()
    fast = load_winner(Candidate(source=SCALE), module)
    with torch.no_grad():
        assert torch.equal(fast(torch.ones(3, 1)), module(torch.ones(3, 1)))
    with pytest.warns(UserWarning, match="gradients are enabled"):
        fast(torch.ones(3)).sum().backward()
    assert module.weight.grad is not None


def test_a_container_stays_one() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    fast = load_winner(Candidate(source=NESTED), module)
    assert isinstance(fast, nn.Sequential)
    with torch.no_grad():
        x = torch.randn(5, 2)
        torch.testing.assert_close(fast(x), module(x))


def test_inputs_by_name_become_positional_where_they_can() -> None:
    x = torch.ones(3)
    assert positional_inputs(Scale(), (), {"x": x}) == (x,)
    with pytest.raises(TaskError, match="unexpected keyword argument 'y'"):
        positional_inputs(Scale(), (x,), {"y": x})

    class ByName(nn.Module):
        def forward(self, x: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
            return x * by

    with pytest.raises(TaskError, match="by keyword only: by"):
        positional_inputs(ByName(), (x,), {"by": x})
