"""The oracle computes all of the reference in float64, however the reference is written."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kernelwright.referee.host.float64_oracle import call_double, double_of, run_in_double

WIDTH = 6
TABLE = torch.linspace(-1.0, 1.0, WIDTH)
EPS32 = torch.finfo(torch.float32).eps


class Base(nn.Module):
    """A linear layer whose result a reference goes on with."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def same(self, x: torch.Tensor) -> torch.Tensor:
        """Compute what ``forward`` means, in the dtype of ``x``."""
        raise NotImplementedError


class ClosureOverModules(Base):
    def __init__(self) -> None:
        super().__init__()
        inner = self.linear
        self.mlp = lambda x: inner(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mlp(x)

    def same(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Casts(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x.float()).to(torch.float32).type(torch.FloatTensor).type("torch.FloatTensor")
        return torch.softmax(y, -1, dtype=torch.float32).to(x.dtype) + F.softmax(y, -1, dtype=torch.float)

    def same(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * torch.softmax(self.linear(x), -1)


class LowCasts(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.half().float()) + self.linear(x.bfloat16().type_as(x))

    def same(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.linear(x)


class MadeInForward(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.shape[0], WIDTH, dtype=torch.float32)
        third = torch.tensor([1 / 3], dtype=torch.float32) * torch.ones(WIDTH)
        state = state + torch.full((WIDTH,), 0.5, dtype=torch.float) + x.new_zeros(WIDTH, dtype=torch.float32)
        return self.linear(x) + state @ torch.eye(WIDTH, dtype=torch.float32) * third

    def same(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + 0.5 / 3


class Constants(Base):
    """Tensors in a list, in a dict, in the file, in a buffer and in NumPy."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.eye(WIDTH)]
        self.named = {"shift": torch.ones(WIDTH)}
        self.register_buffer("scale", torch.full((WIDTH,), 2.0, dtype=torch.float32))
        self.array = np.full(WIDTH, 0.25, dtype=np.float32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) @ self.held[0] + self.named["shift"] + TABLE
        return y * self.scale + torch.from_numpy(self.array)

    def same(self, x: torch.Tensor) -> torch.Tensor:
        table = TABLE.to(x.dtype)
        return (self.linear(x) + 1 + table) * 2 + 0.25


class MaskBesideQuery(Base):
    """Attention refuses a mask of another dtype before any kernel is called."""

    def __init__(self) -> None:
        super().__init__()
        self.masks = [torch.zeros(4, 4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.linear(x)[None]
        return F.scaled_dot_product_attention(q, q, q, attn_mask=self.masks[0])[0]

    def same(self, x: torch.Tensor) -> torch.Tensor:
        q = self.linear(x)
        return torch.softmax(q @ q.T / math.sqrt(WIDTH), -1) @ q


class WritesToACache(Base):
    def __init__(self) -> None:
        super().__init__()
        self.caches = [torch.zeros(4, WIDTH)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.caches[0][:2] = x[:2]
        self.caches[0][2:].copy_(x[2:])
        return self.linear(self.caches[0])

    def same(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Autocast(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.linear(x).float() + TABLE

    def same(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + TABLE.to(x.dtype)


class AsksForDtypes(Base):
    """A branch and constants that hang on the dtype are those of the reference."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32 or self.linear.weight.dtype != x.dtype:
            raise TypeError("float32 only")
        mask = torch.zeros(WIDTH, dtype=x.dtype).masked_fill(
            torch.arange(WIDTH) > 2, torch.finfo(x.dtype).min
        )
        return torch.softmax(self.linear(x) + mask, -1) + torch.finfo(x.dtype).eps * 1e6

    def same(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(self.linear(x)[:, :3], -1)
        return F.pad(y, (0, WIDTH - 3)) + EPS32 * 1e6


class FastFourier(Base):
    def __init__(self) -> None:
        super().__init__()
        self.phases = [torch.polar(torch.ones(WIDTH), torch.arange(WIDTH, dtype=torch.float32))]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.ifft(torch.fft.fft(self.linear(x)).to(torch.complex64) * self.phases[0]).real

    def same(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.ifft(torch.fft.fft(self.linear(x)) * self.phases[0].to(torch.complex128)).real


EXACT = [
    ClosureOverModules,
    Casts,
    LowCasts,
    MadeInForward,
    Constants,
    MaskBesideQuery,
    WritesToACache,
    Autocast,
    AsksForDtypes,
    FastFourier,
]


def inputs() -> torch.Tensor:
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", EXACT, ids=lambda kind: kind.__name__)
def test_what_a_reference_writes_in_float32_is_computed_in_float64(kind: type[Any]) -> None:
    torch.manual_seed(0)
    model = kind()
    before = copy.deepcopy(model.__dict__)
    with torch.no_grad():
        _, got = run_in_double(model, [inputs()])
        want = copy.deepcopy(model).double().same(inputs().double())
    assert got.dtype is torch.float64
    assert (
        (got - want).abs().max() < 1e-7 * want.abs().max()
        if kind is FastFourier
        else torch.allclose(got, want, rtol=1e-9, atol=1e-9 if kind is MadeInForward else 1e-12)
    )
    for name in ("caches", "held", "masks"):
        assert all(
            torch.equal(a, b) for a, b in zip(before.get(name, ()), getattr(model, name, ()), strict=True)
        )


def test_a_closure_over_a_norm_updates_the_copy_alone() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            norm = self.norm = nn.BatchNorm1d(WIDTH)
            self.call = lambda x, scale=2.0, *, shift=1.0: norm(x) * scale + shift

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.call(x)

    model = Model()
    double, got = run_in_double(model, [inputs()])
    assert torch.equal(model.norm.running_mean, torch.zeros(WIDTH))
    torch.testing.assert_close(double.norm.running_mean, inputs().double().mean(0) * 0.1)
    torch.testing.assert_close(got.mean(0), torch.ones(WIDTH, dtype=torch.float64))


def test_weights_that_change_between_calls_are_seen() -> None:
    weights = [torch.ones(WIDTH)]

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * weights[0]

    double = double_of(Model())
    first = call_double(double, [inputs()])
    weights[0].mul_(3)
    torch.testing.assert_close(call_double(double, [inputs()]), first * 3)


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(x.float(), torch.ones([6, 6], dtype=torch.float32))


class Bits(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)


class Scripted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scripted(x)


@pytest.mark.parametrize(
    ("model", "want"),
    [(Bits(), inputs().abs()), (Scripted(), inputs().sum(1, keepdim=True).expand(4, WIDTH))],
)
def test_what_has_no_float64_runs_in_the_reference_s_own_dtype(model: nn.Module, want: torch.Tensor) -> None:
    _, got = run_in_double(model, [inputs()])
    torch.testing.assert_close(got, want.double(), rtol=1e-6, atol=1e-6)


def test_a_reference_in_bfloat16_is_told_bfloat16() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.dtype is torch.bfloat16
            return x.to(torch.float32).pow(2).mean(-1).to(x.dtype)

    x = inputs().bfloat16()
    _, got = run_in_double(Model(), [x])
    assert torch.equal(got, x.double().pow(2).mean(-1))


def test_structured_arguments_are_doubled() -> None:
    class Model(nn.Module):
        def forward(self, pair: dict[str, Any]) -> torch.Tensor:
            return pair["a"] + pair["b"][0]

    values = [{"a": inputs(), "b": (inputs(), 3)}]
    assert torch.equal(run_in_double(Model(), values)[1], inputs().double() * 2)


def test_what_the_reference_raises_is_raised_and_dtypes_are_put_back() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.ones(WIDTH + 1, 2)

    with pytest.raises(RuntimeError, match="shapes"):
        run_in_double(Model(), [inputs()])
    assert torch.get_default_dtype() is torch.float32 and torch.zeros(1).dtype is torch.float32


class Nearest(nn.Module):
    """Which code is nearest to vectors that are much longer than the codes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1e5

    def forward(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return torch.cdist(self.scale * x, codes).argmin(1)


def test_roundings_show_which_decisions_hang_on_them() -> None:
    """Inputs that move by as much hardly show any: they move all distances of a vector alike."""
    generator = torch.Generator().manual_seed(0)
    x, codes = (torch.randn(256, 32, generator=generator) for _ in range(2))
    truth = run_in_double(Nearest(), [x, codes])[1]
    far = 1e5 * x[:, None] - codes[None]
    direct = far.square().sum(-1).argmin(1)
    moved = [run_in_double(Nearest(), [x, codes], 16 * EPS32)[1] for _ in range(6)]
    nudged = run_in_double(Nearest(), [x * (1 + 16 * EPS32), codes])[1]
    wrong = direct != truth
    assert wrong.any() and torch.equal(nudged, truth)
    assert torch.stack([one != truth for one in moved]).any(0)[wrong].all()


def test_what_torch_computes_inside_a_function_of_its_own_moves_too() -> None:
    class Triplet(nn.Module):
        def forward(self, far: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.triplet_margin_loss(far, x, x.flip(0), reduction="none")

    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    far = x + 1e6
    truth = run_in_double(Triplet(), [far, x])[1]
    moved = run_in_double(Triplet(), [far, x], 16 * EPS32)[1]
    assert (moved - truth).abs().max() > 0.1


def test_equal_results_move_alike() -> None:
    class Equal(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x / 3.0).argmax(1)

    x = torch.ones(64, 8)
    assert run_in_double(Equal(), [x], 16 * EPS32)[1].eq(0).all()


def test_what_float32_holds_and_views_are_not_moved() -> None:
    class Whole(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x[0]
            y += 1.0
            return torch.arange(4.0) * 3.0 + x.sum(), x / 3.0

    given = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    whole, third = run_in_double(Whole(), [given.clone()], EPS32)[1]
    assert whole.tolist() == [13.0, 16.0, 19.0, 22.0]
    exact = torch.tensor([[2.0, 3.0], [3.0, 5.0]], dtype=torch.float64) / 3
    assert torch.allclose(third, exact, rtol=2 * EPS32, atol=0) and not torch.equal(third, exact)
    assert third[1, 0] == 1.0


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(6), nn.LayerNorm(6), nn.GroupNorm(2, 6)])
def test_the_mean_of_a_norm_moves_as_one_by_hand(norm: nn.Module) -> None:
    """Values that are alike but for roundings: those of the mean decide what comes out."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x / 3.0)

    x = torch.ones(32, 6)
    truth, moved = (run_in_double(Scaled(), [x], rounding)[1] for rounding in (0.0, 16 * EPS32))
    assert truth.abs().max() < EPS32 < 16 * EPS32 < (moved - truth).abs().max() < 1e-2


def test_running_means_move_with_the_mean() -> None:
    norm, x = nn.BatchNorm1d(6), torch.randn(32, 6)
    one, other = (run_in_double(norm, [x], rounding)[0] for rounding in (0.0, 16 * EPS32))
    assert isinstance(one.running_mean, torch.Tensor) and isinstance(other.running_mean, torch.Tensor)
    assert 0 < (one.running_mean - other.running_mean).abs().max() < 1e-4
    assert torch.equal(norm.running_mean, torch.zeros(6))


class Fused(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value)


def test_the_scores_of_a_fused_attention_move_as_those_of_one_by_hand() -> None:
    """Two keys whose scores are huge and nearly equal: roundings decide which of them is seen."""
    query, value = torch.rand(1, 1, 1, 8) + 1, torch.tensor([[[[0.0], [1.0]]]])
    key = torch.full((1, 1, 2, 8), 2.0**30)
    key[..., 1, 0] += 2.0**10
    seen = {round(float(run_in_double(Fused(), (query, key, value), 2.0**-20)[1])) for _ in range(60)}
    assert seen == {0, 1}
