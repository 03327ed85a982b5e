"""Pools that merge with each other, with linear layers and with convolutions."""

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
from tests.marks import first_quick
from torch.nn import functional as F

from kernelwright.ir.rewrites import REWRITES


def test_pools_in_a_row_merge():
    after = rewrite_and_check(
        "merge_pools", lambda x: F.avg_pool3d(F.avg_pool3d(x, 2), 2), randn(1, 2, 9, 10, 15)
    )
    assert targets(after) == ["avg_pool3d.default"]
    rewrite_and_check("merge_pools", lambda x: F.max_pool2d(F.max_pool2d(x, 2), 3), randn(1, 2, 13, 19))
    rewrite_and_check("merge_pools", lambda x: F.max_pool2d(F.max_pool2d(x, 3, 2), 3, 2), randn(1, 2, 17, 19))


def test_pools_that_do_not_compose_stay():
    assert_silent(
        "merge_pools",
        lambda x: (
            F.avg_pool2d(F.avg_pool2d(x, 3, 2), 2),
            F.max_pool2d(F.max_pool2d(x, 2, 3), 2),
            F.max_pool2d(F.max_pool2d(x, 2, padding=1), 2),
            F.max_pool2d(F.max_pool2d(x, 2, ceil_mode=True), 2),
            F.avg_pool2d(F.max_pool2d(x, 2), 2),
        ),
        randn(1, 2, 17, 19),
    )


def test_pool_of_out_features_pools_the_weight():
    def forward(x, w, b):
        return F.avg_pool1d(F.linear(x, w, b).unsqueeze(1), 5).squeeze(1)

    after = rewrite_and_check("pool_linear", forward, randn(12, 9), randn(33, 9), randn(33))
    assert [tuple(n.meta["val"].shape) for n in after.graph.nodes if "addmm" in n.name] == [(12, 6)]
    assert_silent(
        "pool_linear",
        lambda x, w: F.avg_pool1d(F.linear(x, w).relu().unsqueeze(1), 5),
        randn(12, 9),
        randn(33, 9),
    )


@settings(max_examples=5)
@given(
    transposed=st.booleans(), kernel=st.integers(1, 5), stride=st.integers(1, 3), padding=st.integers(0, 2),
    pool=st.integers(2, 3), size=st.integers(8, 12), extra=st.integers(0, 1),
)  # fmt: skip
def test_pool_after_a_convolution_joins_its_window(transposed, kernel, stride, padding, pool, size, extra):
    pool = stride if transposed and stride > 1 else pool
    extra = extra if extra < stride else 0

    def forward(x, w, b):
        if transposed:
            return F.avg_pool2d(F.conv_transpose2d(x, w, b, stride, padding, extra), pool)
        return F.avg_pool2d(F.conv2d(x, w, b, stride, padding), pool)

    w = randn(3, 3, kernel, kernel)
    if transposed and padding > (size - 1) * stride + kernel:
        return
    try:
        before = capture(forward, randn(2, 3, size, size + 1), w, randn(3))
    except Exception:
        return  # an impossible shape
    for site in REWRITES["pool_convolution"].sites(before):
        assert_same(before, REWRITES["pool_convolution"].apply(before, site.region), seeds=(0,))


@pytest.mark.parametrize(
    "kernel,padding,extra", first_quick([(3, 1, 1), (2, 0, 0), (4, 1, 0), (3, 0, 1), (5, 2, 1)], 2)
)
def test_pool_undoes_the_stride_of_a_transposed_convolution(kernel, padding, extra):
    after = rewrite_and_check(
        "pool_convolution",
        lambda x, w, b: F.avg_pool2d(F.conv_transpose2d(x, w, b, 2, padding, extra), 2),
        randn(2, 3, 8, 9), randn(3, 4, kernel, kernel), randn(4),
    )  # fmt: skip
    assert "avg_pool2d.default" not in targets(after)


def test_pool_after_convolution_stays_where_it_does_not_pay():
    assert_silent(
        "pool_convolution",
        lambda x, w: F.avg_pool2d(F.conv2d(x, w), 2, 1),
        randn(2, 3, 8, 8),
        randn(3, 3, 3, 3),
    )
    assert_silent(
        "pool_convolution",
        lambda x, w: F.avg_pool2d(F.conv2d(x, w).tanh(), 2),
        randn(2, 3, 8, 8),
        randn(3, 3, 3, 3),
    )


def test_pool_goes_before_a_pointwise_convolution():
    x, w, b = randn(2, 3, 8, 9), randn(4, 3, 1, 1), randn(4)
    after = rewrite_and_check("pool_convolution", lambda x, w, b: F.avg_pool2d(F.conv2d(x, w, b), 2), x, w, b)
    assert targets(after) == ["avg_pool2d.default", "convolution.default"]
