"""Structured matrix products: diagonal, triangular, symmetric, chains, oneDNN."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ir.rewrites.support import assert_silent, capture, randn, rewrite_and_check, targets

from kernelwright.ir import helpers
from kernelwright.ir.rewrites import REWRITES


@pytest.mark.parametrize(
    "forward",
    [
        lambda d, b: torch.diag(d) @ b,
        lambda d, b: b.T @ torch.diag_embed(d),
        lambda d, b: (torch.eye(7, dtype=torch.float64) * 3) @ b,
    ],
)
def test_diagonal_operand_becomes_a_scaling(forward):
    after = rewrite_and_check("diagonal_matmul", forward, randn(7), randn(7, 5))
    assert not {"mm.default", "bmm.default"} & set(targets(after))


def test_batched_diagonal_operand():
    rewrite_and_check("diagonal_matmul", lambda d, b: torch.diag_embed(d) @ b, randn(3, 6), randn(3, 6, 4))


def test_full_and_off_diagonal_operands_are_left_alone():
    assert_silent("diagonal_matmul", lambda a, b: a @ b, randn(6, 6), randn(6, 6))
    assert_silent("diagonal_matmul", lambda d, b: torch.diag(d, 1) @ b, randn(6), randn(7, 6))


@pytest.mark.parametrize(
    "forward",
    [
        lambda a, b: torch.tril(a @ b),
        lambda a, b: torch.triu(a @ b, 3),
        lambda a, b: torch.tril(a) @ b,
        lambda a, b: a @ torch.triu(b, -2),
        lambda a, b: torch.triu(torch.triu(a) @ torch.triu(b)),
        lambda a, b: torch.tril(a, 1) @ torch.tril(b),
    ],
)
def test_triangular_product_skips_blocks(forward):
    after = rewrite_and_check("triangular_matmul", forward, randn(150, 150), randn(150, 150))
    assert "mm.default" not in targets(after)


def test_products_without_a_proven_triangle_stay():
    assert_silent("triangular_matmul", lambda a, b: a @ b, randn(150, 150), randn(150, 150))
    assert_silent("triangular_matmul", lambda a, b: torch.tril(a) @ b, randn(20, 20), randn(20, 20))
    labels = torch.zeros(20, dtype=torch.int64)
    assert_silent("triangular_matmul", lambda a: F.nll_loss(a, labels), randn(20, 5))  # a mask of one dim


_TRIANGLES = st.none() | st.tuples(st.booleans(), st.integers(-70, 70))


@settings(max_examples=30)
@given(sizes=st.tuples(*[st.integers(1, 200)] * 3), left=_TRIANGLES, right=_TRIANGLES, keep=_TRIANGLES)
def test_blocks_agree_with_masks(sizes, left, right, keep):
    def mask(x, which):
        return x if which is None else x.tril(which[1]) if which[0] else x.triu(which[1])

    a, b = mask(randn(sizes[0], sizes[1]), left), mask(randn(sizes[1], sizes[2]), right)
    got = helpers.triangular_matmul(a, b, left, right, keep)
    torch.testing.assert_close(got, mask(a @ b, keep))


@settings(max_examples=10)
@given(rows=st.integers(1, 200), columns=st.integers(1, 5))
def test_gram_matrix_is_the_product(rows, columns):
    x = randn(2, rows, columns)
    torch.testing.assert_close(helpers.gram_matrix(x), x @ x.mT)


@pytest.mark.slow
def test_product_with_own_transpose_computes_half():
    rewrite_and_check("symmetric_matmul", lambda x: x @ x.T, randn(256, 64))
    rewrite_and_check("symmetric_matmul", lambda x: x.T @ x, randn(64, 256))
    rewrite_and_check("symmetric_matmul", lambda x: torch.bmm(x, x.mT), randn(2, 256, 64))
    assert_silent("symmetric_matmul", lambda x, y: x @ y.T, randn(256, 64), randn(256, 64))
    assert_silent("symmetric_matmul", lambda x: x @ x, randn(256, 256))


def test_chain_takes_the_cheaper_order():
    after = rewrite_and_check(
        "matmul_order", lambda a, b, c: (a @ b) @ c, randn(50, 40), randn(40, 50), randn(50, 1)
    )
    assert tuple(next(n for n in after.graph.nodes if "mm" in n.name).meta["val"].shape) == (40, 1)
    rewrite_and_check("matmul_order", lambda a, b, c: a @ (b @ c), randn(1, 40), randn(40, 50), randn(50, 60))
    assert_silent("matmul_order", lambda a, b, c: a @ (b @ c), randn(50, 40), randn(40, 50), randn(50, 1))


def test_onednn_product_is_as_exact_as_the_default():
    before = capture(
        lambda x, w, b: torch.nn.functional.linear(x, w, b),
        *(torch.randn(s) for s in ((64, 300), (200, 300), (200,))),
    )
    after = REWRITES["onednn_matmul"].apply(before, "*")
    assert "onednn_matmul" in targets(after)
    x, w, b = torch.randn(64, 300), torch.randn(200, 300), torch.randn(200)
    exact = torch.nn.functional.linear(x.double(), w.double(), b.double())
    error = (helpers.onednn_matmul(x, w.t(), b) - exact).abs().max()
    assert error <= 4 * (torch.nn.functional.linear(x, w, b) - exact).abs().max()
    assert_silent("onednn_matmul", lambda a, b: a @ b, randn(200, 200), randn(200, 200))
