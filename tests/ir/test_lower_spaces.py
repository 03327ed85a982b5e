"""Reductions over any axes, broadcasts and reshapes of any shape."""

from math import prod

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from .lowering_checks import Wrap, calls, check, regions

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def tensor(shape: list[int]) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(prod(shape)))


@st.composite
def shape_and_dims(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    shape = draw(SHAPES)
    return shape, draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))


@pytest.mark.slow
@settings(max_examples=12)
@given(shape_and_dims(), st.booleans())
def test_normalising_over_any_axes(case: tuple[list[int], list[int]], keepdim: bool) -> None:
    shape, dims = case
    x = tensor(shape)
    program = check(
        Wrap(lambda x: (x - x.mean(dims, keepdim=True)).exp().sum(dims, keepdim=keepdim).log()), x
    )
    assert not calls(program)


@pytest.mark.slow
@settings(max_examples=12)
@given(SHAPES, st.data())
def test_broadcasting_any_shapes(shape: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    other = [n if keep else 1 for n, keep in zip(shape, kept, strict=True)]
    other = other[data.draw(st.integers(0, len(other) - 1)) :]
    program = check(Wrap(lambda x, y: torch.tanh(x) * y + y.exp()), tensor(shape), tensor(other))
    assert len(regions(program)) == 1


@pytest.mark.slow
@settings(max_examples=12)
@given(st.permutations([2, 3, 4, 2]), st.permutations([4, 6, 2]), st.permutations([0, 1, 2]))
def test_reshapes_of_computed_values(first: list[int], second: list[int], order: list[int]) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).reshape(second).permute(order)
        return torch.softmax(y.reshape(8, 6), 1) + 1

    check(Wrap(chain), tensor(first))
