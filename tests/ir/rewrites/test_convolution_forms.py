"""Convolutions as products, untransposed, and with channels last."""

import pytest
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
from torch import nn
from torch.nn import functional as F

from kernelwright.ir.rewrites import REWRITES


def test_pointwise_convolution_is_a_product():
    for bias in (randn(5), None):
        after = rewrite_and_check(
            "convolution_as_matmul",
            lambda x, w, b=bias: F.conv2d(x, w, b),
            randn(2, 3, 4, 6),
            randn(5, 3, 1, 1),
        )
        assert "bmm.default" in targets(after)
    assert_silent(
        "convolution_as_matmul", lambda x, w: F.conv2d(x, w, stride=2), randn(2, 3, 4, 6), randn(5, 3, 1, 1)
    )
    assert_silent("convolution_as_matmul", lambda x, w: F.conv2d(x, w), randn(2, 3, 4, 6), randn(5, 3, 1, 2))


@pytest.mark.parametrize(
    ("channels", "side", "pays"), [(256, 14, True), (256, 56, False), (6, 200, True), (64, 320, True)]
)
def test_a_product_pays_where_it_is_small_or_its_result_large(channels, side, pays):
    before = capture(lambda x, w: F.conv2d(x, w), randn(1, channels, side, side), randn(64, channels, 1, 1))
    (site,) = REWRITES["convolution_as_matmul"].sites(before)
    assert (site.gain > 1) == pays


@settings(max_examples=5)
@given(
    kernel=st.integers(1, 4), padding=st.integers(0, 3), dilation=st.integers(1, 2), size=st.integers(7, 9)
)
def test_transposed_convolution_with_stride_one_is_plain(kernel, padding, dilation, size):
    def forward(x, w, b):
        return F.conv_transpose2d(x, w, b, 1, padding, 0, 1, dilation)

    before = capture(forward, randn(2, 3, size, size), randn(3, 4, kernel, kernel), randn(4))
    sites = REWRITES["untransposed_convolution"].sites(before)
    assert bool(sites) == (padding <= dilation * (kernel - 1))
    if sites:
        assert_same(before, REWRITES["untransposed_convolution"].apply(before, "*"))


def test_strided_and_grouped_transposed_convolutions_stay():
    assert_silent(
        "untransposed_convolution",
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        randn(1, 2, 5, 5),
        randn(2, 2, 3, 3),
    )
    assert_silent(
        "untransposed_convolution",
        lambda x, w: F.conv_transpose2d(x, w, groups=2),
        randn(1, 2, 5, 5),
        randn(2, 2, 3, 3),
    )


@pytest.mark.parametrize("layer", [nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(3, 4, 3, 2)])
def test_channels_last_keeps_outputs_in_their_layout(layer):
    net = nn.Sequential(layer, nn.ReLU(), nn.Conv2d(4, 2, 3), nn.Flatten()).double()
    after = rewrite_and_check("channels_last", net, randn(2, 3, 8, 9))
    convolutions = [n for n in after.graph.nodes if n.name.startswith("convolution")]
    assert all(n.meta["val"].stride()[1] == 1 for n in convolutions)
    copies = [n for n in after.graph.nodes if n.name.startswith("clone")]
    assert len(copies) == 3  # input, its weight, before flattening: not between the convolutions


def test_channels_last_gives_pointwise_outputs_their_old_layout():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).double()
    rewrite_and_check("channels_last", net, randn(2, 3, 8, 9))


def test_channels_last_promises_nothing_where_it_was_slower():
    converted_back = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU()).double()
    depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, groups=8), nn.MaxPool2d(4)).double()
    for net in (converted_back, depthwise):
        (site,) = REWRITES["channels_last"].sites(capture(net, randn(2, 8, 16, 16)))
        assert site.gain == 1.0
