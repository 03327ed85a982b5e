"""Scalings, shifts and normalisations that fold into layers, and means of normalised values."""

import math

import pytest
import torch
from tests.ir.rewrites.support import assert_silent, capture, randn, rewrite_and_check, targets
from tests.marks import first_quick
from torch import fx, nn
from torch.nn import functional as F

from kernelwright.ir.rewrites import REWRITES


@pytest.mark.parametrize(
    ("forward", "left"),
    [
        (lambda x: (x - 0.5 - 0.25).exp(), ["add.Tensor", "exp.default"]),
        (lambda x: (x * 2 + 1) / 2 - 0.5, []),
        (lambda x: -(x + x) * 3, ["mul.Tensor"]),
        (lambda x: ((2 * x + 1) * 2 + 1).tanh(), ["mul.Tensor", "add.Tensor", "tanh.default"]),
    ],
)
def test_scalar_chains_merge(forward, left):
    after = rewrite_and_check("merge_scalars", forward, randn(4, 5))
    assert [t for t in targets(after) if t != "clone.default"] == left


def test_scalar_chains_stop_at_other_readers():
    assert_silent("merge_scalars", lambda x: (lambda y: (y * 3, y))(x * 2), randn(4, 5))
    assert_silent("merge_scalars", lambda x: x * 2 + 1, randn(4, 5))


def test_scalar_chains_that_round_or_overflow_stay():
    assert_silent("merge_scalars", lambda x: x + 12582912.0 - 12582912.0, randn(4, 5))
    assert_silent("merge_scalars", lambda x: x * 1e30 * 1e30, randn(4, 5))
    assert_silent("merge_scalars", lambda x: x * 1e30 * 1e-30, randn(4, 5))


@pytest.mark.parametrize(
    "tail",
    first_quick(
        [lambda y, v: (y + v) / v, lambda y, v: y * 2 - 1, lambda y, v: v * y - v, lambda y, v: y / 3], 2
    ),
)
@pytest.mark.parametrize(("kind", "bias"), [(nn.Conv2d, False), (nn.ConvTranspose2d, True)])
def test_channel_affine_folds_into_a_convolution(tail, kind, bias):
    net = _Tailed(kind(2, 3, 3, bias=bias).double(), tail)
    after = rewrite_and_check("fold_affine", net, randn(2, 2, 12, 12), randn(3, 1, 1))
    assert targets(after)[-1] == "convolution.default"


class _Tailed(nn.Module):
    def __init__(self, layer, tail):
        super().__init__()
        self.layer, self.tail = layer, tail

    def forward(self, x, v):
        return self.tail(self.layer(x), v)


def test_affine_folds_into_a_linear_layer_only_if_the_weight_is_small():
    scaled = rewrite_and_check(
        "fold_affine", lambda x, w, v: (x @ w) * v, randn(50, 6), randn(6, 7), randn(7)
    )
    assert targets(scaled)[-1] == "mm.default"
    linear = nn.Linear(6, 7).double()
    shifted = rewrite_and_check("fold_affine", lambda x, v: linear(x) * v + v, randn(50, 6), randn(7))
    assert targets(shifted)[-1] == "addmm.default"
    assert_silent("fold_affine", lambda x, w, v: (x @ w) * v, randn(4, 6), randn(6, 7), randn(7))
    assert_silent("fold_affine", lambda x, w, v: (x @ w) * v, randn(50, 6), randn(6, 7), randn(50, 1))


def test_a_bias_that_was_split_off_is_not_folded_back():
    assert_silent("fold_affine", lambda x, w, v: torch.relu(x @ w + v), randn(50, 6), randn(6, 7), randn(7))


def test_fixed_batch_norm_folds_into_the_layer_before():
    for layer, size in ((nn.Conv2d(2, 3, 3), (2, 2, 8, 8)), (nn.ConvTranspose2d(2, 3, 3), (2, 2, 8, 8))):
        net = nn.Sequential(layer, nn.BatchNorm2d(3)).double().eval()
        assert targets(rewrite_and_check("fold_batch_norm", net, randn(*size)))[-1] == "convolution.default"
    linear = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False)).double().eval()
    assert targets(rewrite_and_check("fold_batch_norm", linear, randn(60, 3)))[-1] == "addmm.default"
    training = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)).double()
    assert_silent("fold_batch_norm", training, randn(2, 2, 8, 8))


@pytest.mark.parametrize("dims", [(2, 3), (1, 2, 3), (0, 1, 2, 3)])
def test_mean_of_group_norm_needs_no_normalised_values(dims):
    norm = nn.GroupNorm(2, 6).double()
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    after = rewrite_and_check(
        "mean_of_norm",
        lambda x, w, b: F.group_norm(x, 2, w, b).mean(dims),
        randn(3, 6, 4, 5),
        norm.weight.detach(),
        norm.bias.detach(),
    )
    assert "native_group_norm.default" not in targets(after)


def test_mean_of_other_values_than_a_whole_group_norm_stays():
    assert_silent("mean_of_norm", lambda x: F.group_norm(x, 2).relu().mean((2, 3)), randn(3, 6, 4, 5))
    assert_silent("mean_of_norm", lambda x: F.group_norm(x, 2).mean(1), randn(3, 6, 4, 5))


def test_bias_before_an_instance_norm_cancels():
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.InstanceNorm2d(3)).double()
    after = rewrite_and_check("cancelled_bias", net, randn(2, 2, 8, 8))
    assert next(n for n in after.graph.nodes if n.name.startswith("convolution")).args[2] is None
    rewrite_and_check("cancelled_bias", lambda x, b: (x + b).softmax(1), randn(4, 5), randn(4, 1))
    assert_silent(
        "cancelled_bias", nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4)).double(), randn(2, 2, 8, 8)
    )
    assert_silent(
        "cancelled_bias", nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)).double(), randn(2, 2, 8, 8)
    )
    assert_silent("cancelled_bias", lambda x, b: (x + b).softmax(1), randn(4, 5), randn(5))


def test_bias_of_a_product_moves_behind_it():
    after = rewrite_and_check(
        "split_bias", lambda x, w, b: F.linear(x, w, b).tanh(), randn(9, 4), randn(5, 4), randn(5)
    )
    assert targets(after)[1:] == ["mm.default", "add.Tensor", "tanh.default"]
    assert_silent("split_bias", lambda x, w, b: F.linear(x, w, b), randn(9, 4), randn(5, 4), randn(5))


def test_softmax_and_logarithm_merge():
    assert targets(rewrite_and_check("log_softmax", lambda x: x.softmax(1).log(), randn(4, 5))) == [
        "_log_softmax.default"
    ]
    assert targets(rewrite_and_check("log_softmax", lambda x: x.log_softmax(1).exp(), randn(4, 5))) == [
        "_softmax.default"
    ]
    assert_silent("log_softmax", lambda x: (x.softmax(1) + 1).log(), randn(4, 5))


def test_zeros_before_a_cumulative_sum_move_before_it():
    def exclusive(x):
        return torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), torch.cumsum(x[:, :-1], 1)), 1)

    assert targets(rewrite_and_check("scan_shift", exclusive, randn(4, 5)))[-2:] == [
        "cat.default",
        "cumsum.default",
    ]
    ones = lambda x: torch.cat((torch.ones_like(x[:1]), x.cumprod(0)))  # noqa: E731
    assert targets(rewrite_and_check("scan_shift", ones, randn(4, 5)))[-1] == "cumprod.default"


def test_another_value_before_a_scan_or_along_another_axis_stays():
    assert_silent("scan_shift", lambda x: torch.cat((torch.ones_like(x[:1]), x.cumsum(0))), randn(4, 5))
    assert_silent("scan_shift", lambda x: torch.cat((torch.zeros_like(x[:1]), x.cumsum(1))), randn(4, 5))
    assert_silent("scan_shift", lambda x: torch.cat((x[:1], x.cumsum(0))), randn(4, 5))
    assert_silent("scan_shift", lambda x: torch.cat((x.cumsum(0), torch.zeros_like(x[:1]))), randn(4, 5))


def _attention(mask):
    def forward(q, k, v, m):
        scores = mask((q @ k.transpose(-2, -1)) / 4.0, m)
        return torch.softmax(scores, -1) @ v

    return forward


@pytest.mark.parametrize(
    ("mask", "lead"),
    first_quick(
        [
            (lambda s, m: s, (2, 3)),
            (lambda s, m: s.masked_fill(m > 0.5, float("-inf")), (6,)),
            (lambda s, m: s + m, (6,)),
            (lambda s, m: s.masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), float("-inf")), (2, 3)),
        ],
        count=2,
    ),
)
def test_spelled_out_attention_becomes_one_call(mask, lead):
    m = torch.zeros(7, 7, dtype=torch.float64)
    after = rewrite_and_check(
        "fused_attention", _attention(mask), randn(*lead, 7, 4), randn(*lead, 7, 4), randn(*lead, 7, 5), m
    )
    assert "scaled_dot_product_attention.default" in targets(after)


HIDES_A_ROW = torch.tensor([[True] * 3, [False, True, False], [False] * 3])


@pytest.mark.parametrize(
    "mask",
    [
        lambda s, m: s.masked_fill(m > 0, -math.inf),
        lambda s, m: s + torch.zeros_like(m).masked_fill(m > 0, -math.inf),
    ],
)
def test_a_row_that_sees_no_key_stays_nan(mask):
    hidden = HIDES_A_ROW.double()
    before = capture(_attention(mask), randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 5), hidden)
    after = REWRITES["fused_attention"].apply(before, "*")
    assert "scaled_dot_product_attention.default" in targets(after)
    given = [randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 5), hidden]
    old, new = (fx.GraphModule({}, graph.graph)(*given) for graph in (before, after))
    assert torch.isnan(old[0][:, 0]).all() and torch.isfinite(old[0][:, 1:]).all()
    torch.testing.assert_close(new[0], old[0], equal_nan=True)


@pytest.mark.parametrize(
    "mask",
    [
        lambda s, m: s.masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), -math.inf),
        lambda s, m: s + torch.sigmoid(m),
    ],
)
def test_where_every_row_sees_a_key_nothing_is_put_right(mask):
    q = randn(6, 7, 4)
    after = REWRITES["fused_attention"].apply(capture(_attention(mask), q, q, q, randn(7, 7)), "*")
    assert "where.self" not in targets(after)


def test_other_softmaxes_between_products_stay():
    q = randn(2, 7, 4)
    assert_silent("fused_attention", lambda q, k, v: torch.softmax(q @ k.mT, 1) @ v, q, q, q)
    assert_silent(
        "fused_attention", lambda q, k, v: (lambda p: (p @ v, p))(torch.softmax(q @ k.mT, -1)), q, q, q
    )
    assert_silent("fused_attention", lambda q, k, v: torch.softmax((q @ k.mT).relu(), -1) @ v, q, q, q)
