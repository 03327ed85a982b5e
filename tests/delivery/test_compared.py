"""Before a module is given to anybody, its kernel answers the examples as the original does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered, printed
from torch import nn

import kernelwright
from kernelwright.api import optimizing
from kernelwright.core.errors import TaskError
from kernelwright.delivery.compared import OtherFunctionError, require_same_function
from kernelwright.delivery.making import Delivery, deliver
from kernelwright.tasks.live import task_from_module

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.linspace(-1.0, 1.0, 32).view(4, 8)
KERNEL = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return {returns}
"""


class Scaled(nn.Module):
    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.factor


class Noise(nn.Module):
    """Its results are rounding errors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1.0) - x - 1.0


class Picked(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.argmax(-1), x.half()


def made(module: nn.Module, returns: str, folder: Path) -> Delivery:
    return delivered(module.eval(), (X,), folder, source=KERNEL.format(returns=returns))


@pytest.mark.parametrize(
    ("module", "returns"),
    [
        (Scaled(), "torch.tanh(x) * 3.0"),
        (Scaled(), "torch.tanh(x) * float('nan')"),
        (Scaled(), "(torch.tanh(x) * 2.0).double()"),
        (Picked(), "x.argmin(-1), x.half()"),
        (Picked(), "x.argmax(-1), -x.half()"),
        (Noise(), "x * 0.01"),
    ],
)
def test_a_kernel_of_another_function_is_refused(module: nn.Module, returns: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"on example 0 the kernel returns something else than the module"):
        made(module, returns, tmp_path)


@pytest.mark.parametrize(
    ("module", "returns"),
    [(Scaled(), "torch.tanh(x) * 2.0001"), (Picked(), "x.argmax(-1), x.half()"), (Noise(), "(x - x) * 0.0")],
)
def test_a_kernel_that_rounds_otherwise_is_delivered(module: nn.Module, returns: str, tmp_path: Path) -> None:
    fast: Any = made(module, returns, tmp_path).module
    with kernelwright.strict():
        require_same_function(fast, [((X,), {})], "again")
        fast(X)
    assert fast.report().kernel_calls == 1  # the module itself was not called before


def test_where_the_kernel_is_of_another_function_the_result_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = Scaled().eval()
    task = task_from_module(m, (X,), name="Scaled", folder=tmp_path)
    other = task_from_module(Scaled(3.0).eval(), (X,), name="Scaled", folder=tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(optimizing, "require_own", lambda *given: None)
    spec = SimpleNamespace(policy=SimpleNamespace(weights=None))
    result = optimizing.OptimizeResult(
        run_id="r", evaluation=None, source="", reason="", task=task, winner=printed(other), original=m,
        store=SimpleNamespace(get_run=lambda run_id: SimpleNamespace(spec=spec)),  # type: ignore[arg-type]
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"Scaled: on example 0 .*again=True.* Until then it is unchanged"):
        assert result.module is m
    with pytest.raises(OtherFunctionError):
        deliver(printed(other), task, m)
