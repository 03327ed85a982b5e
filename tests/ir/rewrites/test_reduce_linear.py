"""Sums and means that move through matrix products and convolutions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ir.rewrites.support import (
    assert_same,
    assert_silent,
    capture,
    randn,
    rewrite_and_check,
    targets,
)
from tests.marks import mostly_slow
from torch import nn
from torch.nn import functional as F

from kernelwright.ir.rewrites import REWRITES

NAME = "reduce_linear"
SETTINGS = settings(max_examples=5)


def test_sum_over_out_features_needs_no_matrix_product():
    after = rewrite_and_check(
        NAME,
        lambda x, w, b: (F.linear(x, w, b) / 2).sum(1, keepdim=True) * 1.5,
        randn(64, 48),
        randn(80, 48),
        randn(80),
    )
    sizes = [tuple(n.meta["val"].shape) for n in after.graph.nodes if "mm" in n.name]
    assert sizes == [(64, 1)]


def test_mean_through_a_vector_subtraction():
    rewrite_and_check(
        NAME,
        lambda x, w, b, s: (F.linear(x, w, b) - s).mean(1),
        randn(64, 48),
        randn(80, 48),
        randn(80),
        randn(80),
    )


def test_mean_over_sequence_before_a_linear_layer():
    after = rewrite_and_check(
        NAME, lambda x, w, b: F.linear(x, w, b).mean(1), randn(4, 60, 48), randn(64, 48), randn(64)
    )
    assert "mean.dim" in targets(after)


def test_sum_of_a_batched_product():
    rewrite_and_check(NAME, lambda a, b: torch.bmm(a, b).sum(2), randn(3, 40, 30), randn(3, 30, 50))
    rewrite_and_check(NAME, lambda a, b: torch.bmm(a, b).mean((1, 2)), randn(3, 40, 30), randn(3, 30, 50))


@SETTINGS
@given(
    transposed=st.booleans(),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    size=st.integers(9, 12),
    dims=st.sampled_from([(2, 3), (2,), (3,), (1, 2, 3), (0, 2, 3), (1,), (0,)]),
)
def test_mean_over_a_convolution(transposed, kernel, stride, padding, dilation, size, dims):
    weight, bias = randn(5, 7, kernel, kernel + 1), randn(7 if transposed else 5)
    x = randn(2, 5 if transposed else 7, size, size + 3)

    def forward(x, w, b):
        if transposed:
            return F.conv_transpose2d(x, w, b, stride, padding, dilation=dilation).mean(dims, keepdim=True)
        return F.conv2d(x, w, b, stride, padding, dilation).mean(dims, keepdim=True)

    _check_if_it_pays(forward, x, weight, bias)


def _check_if_it_pays(forward, *inputs):
    try:
        before = capture(forward, *inputs)
    except Exception:
        return  # an impossible shape
    if REWRITES[NAME].sites(before):
        assert_same(before, REWRITES[NAME].apply(before, "*"), seeds=(0,))


@pytest.mark.parametrize("dims", mostly_slow([(2,), (3, 4), (2, 3, 4)], (3, 4)))
def test_mean_over_depth_of_a_transposed_convolution(dims):
    layer = nn.ConvTranspose3d(4, 6, 3, stride=2, padding=1, output_padding=1).double()
    rewrite_and_check(
        NAME,
        lambda x, w, b: F.conv_transpose3d(x, w, b, 2, 1, 1).mean(dims, keepdim=True),
        randn(2, 4, 6, 7, 8),
        layer.weight.detach(),
        layer.bias.detach(),
    )


def test_global_mean_of_scaled_mean():
    def forward(x, w, b):
        scaled = F.conv_transpose2d(x, w, b, 2, 1, 1) * 0.5
        return scaled.mean((2, 3), keepdim=True).mean((2, 3), keepdim=True)

    rewrite_and_check(NAME, forward, randn(2, 4, 9, 9), randn(4, 6, 3, 3), randn(6))


def test_does_not_cross_what_is_not_linear():
    assert_silent(NAME, lambda x, w: F.linear(x, w).relu().sum(1), randn(32, 24), randn(40, 24))
    assert_silent(NAME, lambda x, w: F.linear(x, w).amax(1), randn(32, 24), randn(40, 24))
    assert_silent(
        NAME, lambda x, w: F.conv2d(x, w, groups=2).mean((2, 3)), randn(2, 4, 8, 8), randn(4, 2, 3, 3)
    )


def test_product_that_is_needed_anyway_stays():
    assert_silent(NAME, lambda x, w: (lambda y: (y, y.sum(1)))(F.linear(x, w)), randn(32, 24), randn(40, 24))
