"""Programs with library anchors, state and several regions compute what eager computes."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from lab.interpret import interpret
from tests.marks import each_nth
from torch import nn

from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.lower import fuse, lower
from kernelwright.ir.program import Call
from kernelwright.tasks.capture import capture_module

from .lowering_checks import Wrap, calls, check, regions, tensors_of


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class Chain(nn.Module):
    """A layer and what follows it."""

    def __init__(self, layer: nn.Module, then: Any) -> None:
        super().__init__()
        self.layer = layer
        self.then = then
        self.weight = nn.Parameter(torch.randn(16))

    def forward(self, x: torch.Tensor) -> Any:
        return self.then(self.layer(x), self)


class Residual(nn.Module):
    """A transformer block without attention, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + F.gelu(layer(norm(x)))
        return x


class Attention(nn.Module):
    """Causal self-attention written out."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).view(1, 1, 6, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.view(2, 6, 4, 4).transpose(1, 2) for t in self.qkv(x).split(16, dim=2))
        scores = (q @ k.transpose(-2, -1)) / 2.0
        scores = scores.masked_fill(self.mask[:, :, :6, :6] == 0, float("-inf"))
        return (F.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(2, 6, 16)


class Recurrence(nn.Module):
    """A short unrolled recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(12, 8)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for step in range(4):
            h = torch.tanh(self.cell(torch.cat([x[step], h], 1)))
        return h


def bn(channels: int) -> nn.Module:
    return nn.BatchNorm1d(channels)


MODULES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "linear_gelu_scale": (Chain(nn.Linear(8, 16), lambda y, m: F.gelu(y) * m.weight), (randn(5, 8),)),
    "linear_sum_lse": (
        Chain(nn.Linear(8, 16), lambda y, m: torch.logsumexp(y.sum(1, keepdim=True), 1, keepdim=True)),
        (randn(5, 8),),
    ),
    "linear_residual_clamp_lse_mish": (
        Chain(nn.Linear(8, 16), lambda y, m: F.mish(torch.logsumexp(torch.clamp(y + y, -1, 1), 1))),
        (randn(5, 8),),
    ),
    "linear_group_norm": (
        Chain(nn.Linear(8, 16), lambda y, m: F.silu(F.group_norm(y, 4, m.weight))),
        (randn(5, 8),),
    ),
    "batch_norm": (nn.BatchNorm2d(6), (randn(4, 6, 5, 3),)),
    "batch_norm_1d": (Chain(nn.Linear(8, 16), lambda y, m: F.gelu(y)), (randn(5, 8),)),
    "batch_norm_eval": (nn.BatchNorm2d(6).eval(), (randn(4, 6, 5, 3),)),
    "batch_norm_pool_group_norm": (
        nn.Sequential(nn.BatchNorm2d(16), nn.Tanh(), nn.MaxPool2d(2), nn.GroupNorm(4, 16)),
        (randn(4, 16, 8, 8),),
    ),
    "conv_relu_bias": (
        Chain(nn.Conv2d(3, 16, 3), lambda y, m: torch.relu(y) + m.weight[:, None, None]),
        (randn(2, 3, 8, 8),),
    ),
    "conv_transpose_softmax": (
        Chain(nn.ConvTranspose2d(3, 16, 3), lambda y, m: torch.sigmoid(F.softmax(y, 1) * 2)),
        (randn(2, 3, 8, 8),),
    ),
    "conv_norm_mean": (
        Chain(nn.Conv3d(3, 16, 3), lambda y, m: F.group_norm(y, 4).mean((1, 2, 3, 4))),
        (randn(2, 3, 6, 6, 6),),
    ),
    "channels_last_conv": (
        Chain(nn.Conv2d(3, 16, 3), lambda y, m: y.relu()),
        (randn(2, 3, 8, 8).to(memory_format=torch.channels_last),),
    ),
    "conv_on_permuted": (
        Wrap(lambda x: F.relu(F.avg_pool2d(x.permute(0, 3, 1, 2) * 2, 2))),
        (randn(2, 8, 8, 3),),
    ),
    "residual_layer_norms": (Residual(), (randn(4, 6, 16),)),
    "attention": (Attention(), (randn(2, 6, 16),)),
    "recurrence": (Recurrence(), (randn(4, 2, 4), randn(2, 8))),
    "sdpa": (
        Wrap(lambda q: F.scaled_dot_product_attention(q.sin(), q.cos(), q) + 1),
        (randn(2, 3, 6, 4),),
    ),
    "frobenius": (Wrap(lambda x: x / torch.norm(x, p="fro")), (randn(40, 40),)),
    "mse": (Wrap(lambda x, y: torch.mean((x - y) ** 2)), (randn(6, 9), randn(9, 6).T)),
    "huber": (Wrap(F.smooth_l1_loss), (randn(6, 9), randn(6, 9) * 2)),
    "kl": (
        Wrap(lambda p, t: F.kl_div(torch.log(p), t, reduction="batchmean")),
        (randn(6, 9).softmax(1), (randn(6, 9) * 2).softmax(1)),
    ),
    "cross_entropy": (Wrap(F.cross_entropy), (randn(9, 5), torch.arange(9) % 5)),
    "triplet": (
        nn.TripletMarginLoss(),
        (randn(6, 9), randn(6, 8, 1)[:, :1, 0].expand(6, 9), randn(6, 9) + 1),
    ),
    "hinge": (Wrap(lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0))), (randn(9, 9), randn(9).sign())),
    "cosine_loss": (
        Wrap(lambda x, y: torch.mean(1 - F.cosine_similarity(x, y, dim=1))),
        (randn(6, 9), randn(9, 6).T),
    ),
    "exclusive_cumsum": (
        Wrap(lambda x: torch.cat([torch.zeros_like(x[:, :1]), torch.cumsum(x[:, :-1], 1)], 1)),
        (randn(6, 9),),
    ),
    "embedding": (nn.Embedding(7, 5), (torch.tensor([[1, 6, 0], [2, 2, 3]]),)),
    "gather": (
        Wrap(lambda x, i: torch.gather(x * 2, 1, i)),
        (randn(4, 5), torch.tensor([[0, 4], [1, 1], [2, 0], [3, 3]])),
    ),
    "index": (Wrap(lambda x, i: x[i].exp()), (randn(4, 5), torch.tensor([0, -1, 2]))),
    "index_of_positions": (
        Wrap(lambda x, i: torch.arange(4)[i] * 3 + torch.arange(2, 10, 2)[i] <= x),
        (randn(3) * 9, torch.tensor([0, -1, 2])),
    ),
    "index_of_real_positions": (
        Wrap(lambda x, i: torch.arange(0.0, 2.0, 0.5)[i] * x + torch.arange(4, dtype=torch.float32)[i]),
        (randn(3), torch.tensor([3, 1, 2])),
    ),
    "long_cat": (Wrap(lambda x: torch.cat([x] * 6, 1).relu()), (randn(4, 5),)),
    "transposed_mm": (Wrap(lambda a, b: (a.T @ b.T).relu()), (randn(4, 5), randn(6, 4))),
    "view_of_input": (Wrap(lambda x: x.view(-1).unsqueeze(0)), (randn(4, 5),)),
    "input_itself": (Wrap(lambda x: (x, x + 1)), (randn(4, 5),)),
    "view_of_call": (Wrap(lambda a, b: (a @ b).view(2, 3, -1).permute(1, 0, 2)), (randn(6, 4), randn(4, 5))),
    "slice_of_call": (Wrap(lambda a, b: (a @ b)[1:3]), (randn(6, 4), randn(4, 5))),
    "view_of_strided_call": (
        Wrap(lambda a, b: torch.bmm(a, b).transpose(1, 2).reshape(2, -1) + 1),
        (randn(2, 3, 4), randn(2, 4, 5)),
    ),
    "sort_stays": (Wrap(lambda x: torch.sort(x * 2, 1)[0] + 1), (randn(4, 5),)),
    "complex_stays": (Wrap(lambda x: torch.fft.rfft(x).abs() + 1), (randn(4, 8),)),
    "half_stays": (Wrap(lambda x: (x.to(torch.bfloat16) * 3).float() + 1), (randn(4, 8),)),
    "literal": (Wrap(lambda x: x + torch.tensor([1.0, 2.0, 3.0])), (randn(4, 3),)),
    "empty": (Wrap(lambda x: torch.cat([x[:0], x]).relu()), (randn(4, 3),)),
    "norm_act_pool": (
        Wrap(lambda x: F.max_pool2d(F.gelu(F.instance_norm(x)), 3, 1).amax((2, 3))),
        (randn(2, 6, 16, 16),),
    ),
    "deep_pointwise": (Wrap(lambda x: _deep(x)), (randn(4, 5),)),
}


def _deep(x: torch.Tensor) -> torch.Tensor:
    y = x
    for _ in range(120):
        y = x + y * torch.sigmoid(y) * 0.1
    return y


@pytest.mark.parametrize("name", each_nth(MODULES, 3))
def test_program_matches_eager(name: str) -> None:
    module, inputs = MODULES[name]
    captured = capture_module(module, inputs)
    fuse(captured, FusionOptions())  # raises what `lower` would hide behind calls
    check(module, *inputs)


@pytest.mark.parametrize(
    "name", ["residual_layer_norms", "attention", "view_of_input", "literal", "batch_norm"]
)
def test_library_seed_is_all_calls(name: str) -> None:
    module, inputs = MODULES[name]
    program = check(module, *inputs, options=FusionOptions(enabled=False))
    assert not regions(program)


def test_epilogue_of_an_anchor_is_one_region() -> None:
    program = check(*_flat(MODULES["linear_residual_clamp_lse_mish"]))
    assert [call.target for call in calls(program)] == ["torch.ops.aten.addmm.default"]
    assert len(regions(program)) == 1


def test_statistics_are_stored_ready_for_use() -> None:
    program = check(*_flat(MODULES["batch_norm_pool_group_norm"]))
    pool = next(r for r in regions(program) if "max_pool" in r.name)
    ops = {op for stage in pool.stages for op in str(stage.expr).split("name='")[1:]}
    assert not any(op.startswith("rsqrt") for op in ops)


def test_variance_is_the_sum_of_squared_differences() -> None:
    region = regions(check(nn.LayerNorm(8), randn(4, 8)))[0]
    assert [stage.kind for stage in region.stages] == ["reduce", "reduce", "map"]
    assert "name='square'" in str(region.stages[1].expr)


def test_reverse_cumsum_is_one_reverse_scan() -> None:
    program = check(Wrap(lambda x: torch.cumsum(x.flip(1), 1).flip(1)), randn(3, 9))
    assert regions(program)[0].stages[0].reverse


def test_contiguous_axes_are_one_loop() -> None:
    region = regions(check(Wrap(torch.relu), randn(3, 4, 5)))[0]
    assert [axis.size for axis in region.kept] == [60] and not region.inner


def test_node_kept_as_call() -> None:
    captured = capture_module(Wrap(lambda x: torch.softmax(x * 2, 1)), (randn(3, 9),))
    program = lower(captured, FusionOptions(as_calls=frozenset({"_softmax"})))
    assert [c.target for c in calls(program)] == ["torch.ops.aten._softmax.default"]


def test_helper_functions_become_calls_with_source() -> None:
    captured = capture_module(Wrap(torch.relu), (randn(3, 9),))
    node = next(n for n in captured.graph.nodes if n.op == "call_function")
    node.target = twice
    program = lower(captured)
    call = next(step for step in program.steps if isinstance(step, Call))
    assert call.target == "twice" and "def twice" in (call.helper or "")
    x = randn(3, 9)
    done = interpret(program, tensors_of(captured, nn.Module(), (x,)))
    torch.testing.assert_close(done.outputs[0], 2 * x)


def test_failure_of_ours_leaves_the_graph_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kernelwright.ir.lower.fuse", explode)
    assert not regions(check(Wrap(torch.relu), randn(3, 9)))


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _flat(case: tuple[nn.Module, tuple[torch.Tensor, ...]]) -> tuple[Any, ...]:
    return (case[0], *case[1])


class _LastChannels(nn.Module):
    """Convolutions in channels-last order around pointwise work, as a rewrite leaves them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.second = nn.Conv2d(4, 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.contiguous(memory_format=torch.channels_last)).relu() * 2
        return self.second(x).sigmoid().contiguous(memory_format=torch.contiguous_format)


def test_values_between_channels_last_convolutions_are_stored_channels_last() -> None:
    program = check(_LastChannels(), torch.randn(2, 3, 9, 8))
    between = program.buffer("mul")
    assert between.stride[1] == 1
    assert program.buffer(str(program.outputs[0])).stride == (5 * 5 * 4, 5 * 4, 4, 1)
    assert len(calls(program)) == 3  # the copy of the input and the convolutions


def test_reductions_walk_channels_last_memory_in_its_order() -> None:
    x = torch.randn(3, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    (region,) = regions(check(Wrap(lambda x: (x * x).sum((1, 2, 3))), x))
    assert [axis.size for axis in region.inner] == [4 * 5 * 6]
