"""Lowered programs, carried out by the interpreter, compute what eager computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.marks import each_nth

from .lowering_checks import Wrap, calls, check, regions

X = torch.randn(6, 5, 8, 4, generator=torch.Generator().manual_seed(0))
M = torch.randn(12, 20, generator=torch.Generator().manual_seed(1))
IMAGE = torch.randn(2, 6, 9, 10, generator=torch.Generator().manual_seed(2))
VOLUME = torch.randn(2, 3, 6, 7, 8, generator=torch.Generator().manual_seed(3))
SEQUENCE = torch.randn(2, 3, 17, generator=torch.Generator().manual_seed(4))

ONE_REGION: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "relu": (torch.relu, X),
    "sigmoid": (torch.sigmoid, X),
    "tanh": (torch.tanh, X),
    "gelu": (F.gelu, X),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "silu": (F.silu, X),
    "mish": (F.mish, X),
    "softplus": (F.softplus, X),
    "softplus_beta": (lambda x: F.softplus(x, beta=2.0, threshold=3.0), X),
    "softsign": (F.softsign, X),
    "selu": (F.selu, X),
    "elu": (lambda x: F.elu(x, 0.7), X),
    "celu": (lambda x: F.celu(x, 0.7), X),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), X),
    "hardtanh": (F.hardtanh, X),
    "hardsigmoid": (F.hardsigmoid, X),
    "hardswish": (F.hardswish, X),
    "relu6": (F.relu6, X),
    "logsigmoid": (F.logsigmoid, X),
    "clamp": (lambda x: x.clamp(min=-0.3), X),
    "pow": (lambda x: x**3 + x**2 + x.abs() ** 0.5 + x.abs() ** -0.5 + x.abs() ** 1.3, X),
    "rounding": (lambda x: torch.floor(x * 3) + torch.ceil(x) + torch.round(x) + torch.sign(x), X),
    "where": (lambda x: torch.where(x > 0.1, x * 2, -x), X),
    "masked_fill": (lambda x: x.masked_fill(x < 0, -1.5), X),
    "logic": (lambda x: ((x > 0) & (x < 1)) | ~(x > -1), X),
    "float64": (lambda x: (x.double() * 0.1).exp(), X),
    "to_int": (lambda x: (x * 10).to(torch.int32) + 3, X),
    "softmax_last": (lambda x: torch.softmax(x, -1), X),
    "softmax_inner": (lambda x: torch.softmax(x, 1), X),
    "log_softmax": (lambda x: torch.log_softmax(x, 2), X),
    "logsumexp": (lambda x: torch.logsumexp(x, (1, 3)), X),
    "sum_all": (torch.sum, X),
    "sum_dims": (lambda x: x.sum((0, 2)), X),
    "sum_keepdim": (lambda x: x.sum((1, 3), keepdim=True), X),
    "mean": (lambda x: x.mean(1), X),
    "prod": (lambda x: x.prod(3), X),
    "amax": (lambda x: x.amax((1, 2)), X),
    "amin": (lambda x: x.amin(0), X),
    "max": (lambda x: x.max(), X),
    "max_dim": (lambda x: x.max(2), X),
    "min_dim": (lambda x: torch.min(x, 0, keepdim=True), X),
    "argmax": (lambda x: x.argmax(1), X),
    "argmax_all": (torch.argmax, X),
    "argmin": (lambda x: x.argmin(-1, keepdim=True), X),
    "any_all": (lambda x: (x > 2).any(1), X),
    "all": (lambda x: (x > -1).all(1), X),
    "var": (lambda x: x.var((1, 2)), X),
    "std_mean": (lambda x: torch.std_mean(x, 1, correction=0), X),
    "l1_norm": (lambda x: x / torch.mean(torch.abs(x), dim=1, keepdim=True), X),
    "l2_norm": (lambda x: x / torch.norm(x, p=2, dim=1, keepdim=True), X),
    "normalize": (lambda x: F.normalize(x, dim=2), X),
    "norm3": (lambda x: torch.norm(x, p=3, dim=1), X),
    "norm_inf": (lambda x: torch.linalg.vector_norm(x, float("inf"), 1), X),
    "rms": (lambda x: x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), X),
    "cumsum": (lambda x: x.cumsum(2), X),
    "cumsum_reverse": (lambda x: torch.cumsum(x.flip(1), 1).flip(1), X),
    "cumsum_then_map": (lambda x: torch.relu(torch.cumsum(x * 2, 1)) + 1, X),
    "cumprod": (lambda x: (1 + 0.1 * x).cumprod(1), X),
    "cumsum_of_flip": (lambda x: torch.cumsum(x.flip(1), 1), X),
    "masked_cumsum": (lambda x: torch.cumsum(x * (x > 0), 1), X),
    "layer_norm": (lambda x: F.layer_norm(x, (8, 4)), X),
    "group_norm": (lambda x: F.group_norm(x, 3), IMAGE),
    "instance_norm": (F.instance_norm, IMAGE),
    "gelu_group_norm": (lambda x: F.group_norm(F.gelu(x), 2), IMAGE),
    "max_pool1d": (lambda x: F.max_pool1d(x, 4, 2, 1, 2), SEQUENCE),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "max_pool2d_indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), IMAGE),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, 2, 1), VOLUME),
    "max_pool_ceil": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 4, 2, 1), SEQUENCE),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (3, 2), 2, 1), IMAGE),
    "avg_pool2d_exclude": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE),
    "avg_pool2d_ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGE),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 3, 1, 1), VOLUME),
    "adaptive_one": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive_divisible": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), IMAGE),
    "relu_pool_tanh": (lambda x: torch.tanh(F.max_pool2d(torch.relu(x), 2)), IMAGE),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), IMAGE),
    "floor_division": (lambda x: (torch.round(x * 10) / 10) // 0.1, X),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), IMAGE),
    "cat": (lambda x: torch.cat([x, x.exp(), x[:, :2]], 1), IMAGE),
    "roll": (lambda x: torch.roll(x, 3, 2), IMAGE),
    "permuted_output": (lambda x: x.permute(0, 2, 3, 1).contiguous() * 2, IMAGE),
    "slices": (lambda x: x[:, 1:5:2, ::3, -4:-1] * 2, IMAGE),
    "select": (lambda x: x[:, 2] + x[:, -1], IMAGE),
    "flip": (lambda x: x.flip(1, 3) + 1, IMAGE),
    "repeat": (lambda x: x.repeat(2, 1, 3, 1) + 1, IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x[:, :4], 2) * 3, IMAGE),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3) + 1, IMAGE),
    "unfold": (lambda x: x.unfold(2, 3, 2).unfold(3, 4, 3).mean((-1, -2)), IMAGE),
    "tril": (lambda x: torch.tril(x, 1) + 1, M),
    "triu": (lambda x: torch.triu(x, -2) * 2, M),
    "arange": (lambda x: x + torch.arange(20) * torch.arange(0, 1, 0.05), M),
    "diag_mask": (lambda x: x * torch.eye(12, 20), M),
    "unbind": (lambda x: x.unbind(1)[2] + x.unbind(1)[0], M),
    "chunk": (lambda x: x.chunk(4, 1)[1] * x.chunk(4, 1)[3], M),
    "geglu": (lambda x: F.glu(x, 1), M),
    "logcumsum_free_norm_act_mean": (lambda x: torch.tanh(F.layer_norm(x, (20,))).mean(1), M),
    "view_then_softmax": (
        lambda x: torch.softmax(x.view(3, 4, 5, 4).transpose(1, 2).reshape(3, 5, 16), -1),
        M,
    ),
    "two_outputs": (lambda x: (x.relu(), x.sigmoid()), M),
    "map_and_mean": (lambda x: ((y := F.gelu(x)), y.mean(1)), M),
}


@pytest.mark.parametrize("name", each_nth(ONE_REGION, 3))
def test_operator_becomes_one_region(name: str) -> None:
    function, x = ONE_REGION[name]
    program = check(Wrap(function), x)
    assert len(regions(program)) == 1 and not calls(program)


COPIES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "copy": (lambda x: (y := x.relu(), y.clone()), (0, 1)),
    "copy of a sum": (lambda x: (y := x.sum(-1), y.clone(), y.clone()), (0, 1, 2)),
    "copy of a product": (lambda x: (y := x @ x.mT, y.clone()), (0, 1)),
    "two copies of an input": (lambda x: (x.clone(), x.clone()), (0, 1)),
    "the same tensor": (lambda x: (y := x.relu(), y), (0, 0)),
}


@pytest.mark.parametrize("name", COPIES)
def test_an_output_that_is_a_copy_has_memory_of_its_own(name: str) -> None:
    function, memories = COPIES[name]
    outputs = check(Wrap(function), M).outputs
    found = [outputs.index(output) for output in outputs]
    assert tuple(found) == memories


@pytest.mark.parametrize("is_first", [True, False])
def test_a_copy_that_is_seen_otherwise_is_no_view_of_another_output(*, is_first: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        y = x.relu()
        return (y.clone().view(-1), y) if is_first else (y, y.clone().view(-1))

    program = check(Wrap(function), M)
    assert not any(call.is_view for call in calls(program))
