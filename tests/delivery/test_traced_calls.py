"""A compiled or exported call runs the kernel where an eager one would, and nowhere else."""

import copy
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered
from tests.delivery.test_module import FROZEN, Twice
from torch import nn
from torch.overrides import TorchFunctionMode

Call = Callable[[Any, Callable[..., Any]], torch.Tensor]
X = torch.full((4, 8), 0.3)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((8,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.w)


class Hundredfold(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        return found * 100 if function is torch.tanh else found


class Named(torch.Tensor):
    """A subclass without rules of its own."""


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> nn.Module:
    made: nn.Module = delivered(Scaled(), (X,), tmp_path_factory.mktemp("scaled")).module
    return made


def both(fast: nn.Module, call: Call, *, backend: str = "aot_eager") -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a compiled call gives of the delivered module, and of its original."""
    original = type(fast)._kernelwright_original  # type: ignore[attr-defined]
    found = []
    for kind in (type(fast), original):
        module = copy.deepcopy(fast)
        module.__class__ = kind
        torch._dynamo.reset()
        with torch.no_grad():
            found.append(call(module, lambda one: torch.compile(one, backend=backend)))
    return found[0], found[1]


def of_parameters(module: nn.Module, compiled: Callable[..., Any]) -> torch.Tensor:
    def total(held: dict[str, torch.Tensor]) -> torch.Tensor:
        out: torch.Tensor = torch.func.functional_call(module, held, (X,)).sum()
        return out

    gradients: torch.Tensor = compiled(torch.func.grad(total))({"w": module.w.detach()})["w"]
    return gradients


def in_mode(module: nn.Module, compiled: Callable[..., Any]) -> torch.Tensor:
    def called(x: torch.Tensor) -> Any:
        with Hundredfold():
            return module(x)

    out: torch.Tensor = compiled(called)(X)
    return out


def around_it(module: nn.Module, compiled: Callable[..., Any]) -> torch.Tensor:
    made = compiled(module)
    with Hundredfold():
        out: torch.Tensor = made(X)
    return out


OTHERWISE: dict[str, Call] = {
    "jvp": lambda m, c: c(lambda x, t: torch.func.jvp(m, (x,), (t,))[1])(X, torch.ones_like(X)),
    "gradients of parameters": of_parameters,
    "vmap": lambda m, c: c(lambda x: torch.vmap(m)(x))(torch.stack([X, 2 * X])),
    "a mode inside": in_mode,
    "a mode around": around_it,
}


@pytest.mark.parametrize("call", OTHERWISE.values(), ids=OTHERWISE.keys())
def test_a_compiled_call_is_the_original_s_where_an_eager_one_is(scaled: nn.Module, call: Call) -> None:
    ours, right = both(scaled, call)
    torch.testing.assert_close(ours, right)
    assert right.abs().max() > 0


def test_a_subclass_without_rules_runs_the_original(scaled: nn.Module) -> None:
    given = X.as_subclass(Named)
    ours, right = both(scaled, lambda m, c: c(m)(given), backend="eager")  # others refuse the original, too
    torch.testing.assert_close(ours, right)


def test_a_default_device_of_the_verified_kind_keeps_the_kernel(scaled: nn.Module) -> None:
    fast: Any = copy.deepcopy(scaled)
    with torch.no_grad(), torch.device("cpu"):
        torch.compile(fast, backend="aot_eager")(X)
    assert fast.report().kernel_calls == 1


class Signed(nn.Module):
    def forward(self, x: torch.Tensor, z: float = 0.0) -> torch.Tensor:
        return torch.copysign(torch.tanh(x).abs() + 1, torch.full_like(x, z))


@pytest.mark.parametrize("verified", [0.0, -0.0])
def test_the_other_zero_is_another_argument(verified: float, tmp_path: Path) -> None:
    fast = delivered(Signed(), (X, verified), tmp_path).module
    ours, right = both(fast, lambda m, c: c(m)(X, -verified))
    torch.testing.assert_close(ours, right)


class Averaging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.mul_(0.5).add_(1.0)
        return torch.tanh(x) + self.state


def test_an_input_that_is_a_buffer_which_the_call_writes_runs_the_original(tmp_path: Path) -> None:
    fast = delivered(Averaging(), (torch.rand(8, 8),), tmp_path).module
    ours, right = both(fast, lambda m, c: c(m)(m.state))
    torch.testing.assert_close(ours, right)


@pytest.mark.parametrize("other", [(64, 64, 8, 1), (64, 1, 8, 1)], ids=["rows", "channels last"])
def test_the_format_of_one_channel_is_the_original_s(other: tuple[int, ...], tmp_path: Path) -> None:
    grey = torch.randn(4, 1, 8, 8)
    verified = torch.empty_strided(grey.shape, (64, 1, 8, 1) if other[1] == 64 else (64, 64, 8, 1))
    fast = delivered(nn.Conv2d(1, 8, 3), (verified.copy_(grey),), tmp_path).module
    ours, right = both(fast, lambda m, c: c(m)(torch.empty_strided(grey.shape, other).copy_(grey)))
    torch.testing.assert_close(ours, right)
    assert ours.stride() == right.stride()


SIZES = {
    "named": torch.export.Dim("rows"),
    "auto": torch.export.Dim.AUTO,
    "dynamic": torch.export.Dim.DYNAMIC,
}


@pytest.mark.parametrize("is_grad", [False, True], ids=["without gradients", "with gradients"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
def test_an_export_keeps_sizes_open_that_were_not_verified(
    scaled: nn.Module, size: Any, is_grad: bool
) -> None:
    with torch.set_grad_enabled(is_grad):
        program = torch.export.export(copy.deepcopy(scaled), (X,), dynamic_shapes={"x": {0: size}})
    other = torch.rand(7, 8)
    torch.testing.assert_close(program.module()(other), scaled(other))


def test_an_export_of_fixed_sizes_has_the_kernel(scaled: nn.Module) -> None:
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(scaled), (X,))
    assert "kernelwright" in str(program.graph)


def test_an_export_to_onnx_has_the_original(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    fast = delivered(Scaled(), (X,), tmp_path).module
    with torch.no_grad():
        program = torch.export.export(fast, (X,))
    assert "kernelwright" not in str(program.graph) and "tanh" in str(program.graph)


def test_the_same_guards_are_kept_once_for_tracebacks(tmp_path: Path) -> None:
    delivered(Signed(), (X,), tmp_path)
    before = set(linecache.cache)
    for _ in range(3):
        delivered(Signed(), (X,), tmp_path)
    assert not [name for name in set(linecache.cache) - before if "guards" in name]


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_what_a_fused_optimizer_writes_to_frozen_weights_is_seen(is_compiled: bool, tmp_path: Path) -> None:
    given = torch.ones(3)
    fast: Any = delivered(Twice(), (given,), tmp_path, source=FROZEN, is_frozen=True).module
    call = torch.compile(fast, backend="aot_eager") if is_compiled else fast
    with torch.no_grad():
        call(given)
    steps = torch.optim.AdamW(fast.parameters(), lr=0.5, fused=True)
    fast(given).sum().backward()
    steps.step()
    with torch.no_grad():
        torch.testing.assert_close(call(given), given * (fast.weight * 2))
