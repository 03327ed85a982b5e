"""Operations that cannot matter, repeated work, and order-preserving functions."""

import pytest
import torch
from tests.ir.rewrites.support import assert_silent, capture, randn, rewrite_and_check, targets
from torch import fx, nn
from torch.nn import functional as F

from kernelwright.ir.rewrites import REWRITES


@pytest.mark.parametrize(
    ("forward", "left"),
    [
        (lambda x: (x * 1 + 0) / 1 - 0 + 2, ["add.Tensor"]),
        (lambda x: x.neg().neg() * 2, ["mul.Tensor"]),
        (lambda x: F.leaky_relu(x.relu().relu()), ["relu.default"]),
        (lambda x: x.sigmoid().clamp(0, 1).abs(), ["sigmoid.default"]),
        (lambda x: (x.tanh() * 2).clamp(-2, 5), ["tanh.default", "mul.Tensor"]),
        (lambda x: x.clamp(min=0).clamp(max=6), ["clamp.default"]),
        (
            lambda x: x.sum(1, keepdim=True).logsumexp(1, keepdim=True).logsumexp(1),
            ["sum.dim_IntList", "view.default"],
        ),
        (lambda x: x.mean(1, keepdim=True).max(1).values, ["mean.dim", "view.default"]),
        (lambda x: x.permute(1, 0).permute(1, 0).exp(), ["exp.default"]),
        (  # torch 2.14 leaves dropout that drops nothing out itself: the last site is there always
            lambda x: F.dropout(x.exp(), 0.5, False) + F.dropout(x, 0.0, True).mul(1.0),
            ["exp.default", "add.Tensor"],
        ),
    ],
)
def test_simplify_removes_what_cannot_matter(forward, left):
    assert targets(rewrite_and_check("simplify", forward, randn(4, 5))) == left


def test_value_that_the_graph_fixes_needs_no_work():
    after = rewrite_and_check(
        "simplify", lambda x, w: (x @ w).clamp(max=0.0).clamp(0.0, 1.0), randn(4, 5), randn(5, 3)
    )
    assert targets(after) == ["full.default"]


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax_over_one_element_stays_nan_where_it_is(function):
    before = capture(lambda x: function(x, 1), randn(4, 1))
    after = REWRITES["simplify"].apply(before, "*")
    assert not any("softmax" in target for target in targets(after))
    x = torch.tensor([[1e300], [torch.nan], [torch.inf], [-torch.inf]], dtype=torch.float64)
    got, want = (fx.Interpreter(fx.GraphModule({}, c.graph)).run(x)[0] for c in (after, before))
    torch.testing.assert_close(got, want, equal_nan=True)


def test_output_never_shares_memory_with_an_input():
    after = rewrite_and_check("simplify", lambda x: (x * 1, x + 0), randn(3))
    assert targets(after) == ["clone.default", "clone.default"]


def test_simplify_keeps_what_may_matter():
    def forward(x):
        return (
            x.clamp(-1, 1).tanh(),
            x.tanh().clamp(-0.5, 0.5),
            F.leaky_relu(x.tanh()),
            F.gelu(x).relu(),
            x.logsumexp(1),
            F.leaky_relu(x, -0.5).relu(),
            x * 1.0000001,
        )

    assert_silent("simplify", forward, randn(4, 5))


def test_running_statistics_are_still_updated():
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.ReLU()).double()
    after = rewrite_and_check("simplify", net, randn(2, 2, 6, 6))
    assert set(after.mutations) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_repeated_calls_are_made_once():
    after = rewrite_and_check("common_subexpressions", lambda x: x.exp().sum(1) + x.exp().sum(1), randn(4, 5))
    assert targets(after) == ["exp.default", "sum.dim_IntList", "add.Tensor"]
    assert_silent(
        "common_subexpressions", lambda x: (x * 1.0).sum(0) + (x * 1).sum(0) + (x + 1).sum(0), randn(4, 4)
    )
    assert_silent(
        "common_subexpressions", lambda x: F.dropout(x, 0.5, True) + F.dropout(x, 0.5, True), randn(4, 4)
    )


@pytest.mark.parametrize(
    "forward",
    [
        lambda x, b: F.max_pool2d((x.tanh() * 2) + b, 2),
        lambda x, b: F.max_pool2d(F.leaky_relu(x), 3, 2, 1),
        lambda x, b: (x / 3).sigmoid().amax(1, keepdim=True),
        lambda x, b: (x * 2.0).min(1).values,
        lambda x, b: (x - b).amin((2, 3), keepdim=True),
        lambda x, b: x.exp().sqrt().amin(1),
        lambda x, b: x.relu().sqrt().amax(1),
    ],
)
def test_increasing_functions_follow_the_maximum(forward):
    after = rewrite_and_check("monotone", forward, randn(2, 3, 8, 8), randn(3, 1, 1))
    assert targets(after)[0] in {"max_pool2d_with_indices.default", "amax.default", "min.dim", "amin.default"}


@pytest.mark.parametrize(
    "forward",
    [
        lambda x, b: F.max_pool2d(F.gelu(x), 2),
        lambda x, b: F.max_pool2d(x * b, 2),
        lambda x, b: F.max_pool2d(x * -1, 2),
        lambda x, b: (x + b).amax(1, keepdim=True),
        lambda x, b: F.leaky_relu(x, -1.0).amax(1),
        lambda x, b: x.sqrt().amax(1),
        lambda x, b: x.log().max(1).values,
        lambda x, b: (lambda y: y + y.amax(1, keepdim=True))(x.tanh()),
    ],
)
def test_other_functions_stay_before_the_maximum(forward):
    assert_silent("monotone", forward, randn(2, 3, 8, 8), randn(3, 1, 1))


def test_argmax_needs_no_softmax():
    after = rewrite_and_check("monotone", lambda x: torch.argmax(x.softmax(1), 1), randn(4, 5))
    assert targets(after) == ["argmax.default"]
    assert_silent("monotone", lambda x: torch.argmax(x.softmax(0), 1), randn(4, 5))


def test_softmax_of_a_single_number_is_left_alone():
    assert_silent("simplify", lambda x: x.softmax(0), torch.randn(()))


def test_literals_of_forward_count_as_known():
    def forward(x, w):
        return torch.minimum(x @ w, torch.tensor(0.0, dtype=torch.float64)).clamp(0.0, 1.0)

    after = rewrite_and_check("simplify", forward, randn(4, 5), randn(5, 3))
    assert targets(after) == ["full.default"]
