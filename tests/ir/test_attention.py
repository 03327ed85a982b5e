"""Attention as a region of our own: what it means, for any shape, mask and layout; where it may not be."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ir.lowering_checks import Wrap, calls, check, regions

from kernelwright.ir.attention import find_attention
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.fusion_edits import own_products
from kernelwright.ir.lower import lower
from kernelwright.ir.normalise import normalise
from kernelwright.ir.products import find_product
from kernelwright.ir.program import Program
from kernelwright.ir.rewrites import REWRITES
from kernelwright.tasks.capture import capture_module

attend = F.scaled_dot_product_attention
SIZE = st.integers(1, 6)
HIDDEN = -float("inf")


def owned(function: Any, *inputs: torch.Tensor) -> Program:
    return check(
        Wrap(function), *inputs, options=FusionOptions(own=frozenset({"scaled_dot_product_attention"}))
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[torch.Tensor]]:
    """Return a function of query, key, value and mask, and tensors for it."""
    torch.manual_seed(draw(st.integers(0, 9)))
    batch, shared, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    rows, keys, depth, columns = (draw(SIZE) for _ in range(4))
    is_turned, kind = draw(st.booleans()), draw(st.sampled_from(["none", "causal", "bool", "float", "-inf"]))
    sizes = ((groups * shared, rows, depth), (shared, keys, depth), (shared, keys, columns))
    inputs = [torch.randn(batch, n, h, f) if is_turned else torch.randn(batch, h, n, f) for h, n, f in sizes]
    inputs.append(torch.randn(draw(st.sampled_from([(rows, keys), (batch, 1, rows, keys), (1, keys)]))))

    def function(query: Any, key: Any, value: Any, mask: Any) -> Any:
        turned = [x.transpose(1, 2) if is_turned else x for x in (query, key, value)]
        masks = {"bool": mask > 0.3, "float": mask, "-inf": torch.where(mask > 0.3, mask, HIDDEN)}
        out = attend(*turned, masks.get(kind), is_causal=kind == "causal", enable_gqa=groups > 1)
        return out.transpose(1, 2).flatten(2) if is_turned else out

    return function, inputs


def means_the_same(function: Any, inputs: list[torch.Tensor]) -> None:
    program = owned(function, *inputs)
    assert not [call for call in calls(program) if "attention" in call.name]
    assert [form for region in regions(program) if (form := find_attention(normalise(region)))]


@settings(max_examples=2)
@given(case=cases())
def test_any_attention_is_one_region_that_means_the_same(case: tuple[Any, list[torch.Tensor]]) -> None:
    means_the_same(*case)


@pytest.mark.slow
@settings(max_examples=30)
@given(case=cases())
def test_more_attention_means_the_same(case: tuple[Any, list[torch.Tensor]]) -> None:
    means_the_same(*case)


def test_a_row_that_sees_no_key_is_zero_and_one_that_sees_nan_is_nan() -> None:
    query, key, value = torch.randn(3, 1, 4, 8)
    scores = torch.zeros(4, 4)
    scores[1], scores[2, 3] = HIDDEN, float("nan")
    program = owned(lambda q, k, v, m: attend(q, k, v, m), query, key, value, scores)
    assert find_attention(normalise(regions(program)[-1])) is not None


def test_the_form_says_which_keys_a_row_may_see() -> None:
    inputs = torch.randn(3, 2, 5, 8)
    for is_causal, reach in ((True, 0), (False, None)):
        program = owned(lambda q, k, v, c=is_causal: attend(q, k, v, is_causal=c), *inputs)
        (region,) = regions(program)
        form = find_attention(normalise(region))
        assert form is not None and form.reach == reach and form.sizes == (2, 5, 5, 8)
        assert find_product(normalise(region)) is None


def test_the_library_stays_the_default_and_double_precision_with_it() -> None:
    inputs = torch.randn(3, 2, 5, 8)
    module = Wrap(lambda q, k, v: attend(q, k, v))
    assert [call.name for call in calls(check(module, *inputs))] == ["scaled_dot_product_attention"]
    assert own_products(capture_module(module, tuple(x.double() for x in inputs))) == ()


@pytest.mark.parametrize("scale", [0.5, None])
def test_what_a_model_spells_out_is_attention_after_the_rewrite(scale: float | None) -> None:
    def spelled(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-2, -1) * (scale or 8**-0.5)
        return torch.softmax(scores, dim=-1) @ value

    inputs = tuple(torch.randn(3, 2, 4, 5, 8))
    captured = REWRITES["fused_attention"].apply(capture_module(Wrap(spelled), inputs), "*")
    (node,) = own_products(captured)
    assert "scaled_dot_product_attention" in node.name
    program = lower(captured, FusionOptions(own=frozenset({node.name})))
    assert not calls(program) and len(regions(program)) == 1  # its result is looked at, not copied


def test_what_reads_and_feeds_attention_has_regions_of_its_own() -> None:
    inputs = torch.randn(3, 2, 5, 8)
    program = owned(lambda q, k, v: torch.relu(attend(q * 2, k, v) + q), *inputs)
    assert not calls(program) and len(regions(program)) == 3
