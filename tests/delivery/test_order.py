"""The order in which a module holds what it holds counts where a forward may go by it, and nowhere else."""

import copy
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered
from torch import nn
from torch.nn.utils import prune

import kernelwright
from kernelwright.delivery.saving import save

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.linspace(-2.0, 2.0, 32).view(4, 8)


def again(holder: Any, name: str) -> None:
    """Take something out of a module and put it back: it stands last."""
    held = getattr(holder, name)
    delattr(holder, name)
    setattr(holder, name, held)


def sequence(**parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(parts)).eval()


class Layers(nn.Module):
    """Calls the layers of a dict one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"norm": nn.LayerNorm(8), "act": nn.GELU()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers.values():
            x = layer(x)
        return x


class Looping(nn.Module):
    """Goes through what it and its submodules hold."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.linspace(0.5, 1.0, 8))
        self.last = nn.Parameter(torch.linspace(-1.0, 1.0, 8))
        self.register_parameter("none", None)
        self.register_buffer("one", torch.linspace(0.5, 1.0, 8))
        self.register_buffer("unsaved", torch.full((8,), 0.1), persistent=False)
        self.register_buffer("two", torch.linspace(-1.0, 1.0, 8))
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for tensor in (*self.parameters(), *self.buffers()):
            x = torch.tanh(x * tensor) + tensor
        return x


def pop_norm(m: Any) -> None:
    m.layers["norm"] = m.layers.pop("norm")


def new_buffer(m: Any) -> None:
    one = m.one
    del m.one
    m.register_buffer("one", one)


CHANGES: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], Any]]] = {
    "sequence": (lambda: sequence(norm=nn.LayerNorm(8), act=nn.GELU()), lambda m: again(m, "norm")),
    "dict": (Layers, pop_norm),
    "parameters": (Looping, lambda m: again(m, "first")),
    "buffers": (Looping, new_buffer),
    "parameters of a submodule": (Looping, lambda m: again(m.norm, "weight")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_order_is_seen_by_the_module_its_copies_and_compilers(name: str, home: Path) -> None:
    make, change = CHANGES[name]
    m = make().eval()
    fast: Any = delivered(m, (X,), home).module
    torch._dynamo.reset()
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    with torch.no_grad():
        for each in (fast, compiled):
            torch.testing.assert_close(each(X), m(X))
        assert fast.report().original_calls == 0
        for module in (fast, m):
            change(module)
        for each in (fast, fast, copy.deepcopy(fast), compiled):
            torch.testing.assert_close(each(X), m(X))
    assert any("in another order" in reason for reason in fast.report().reasons)


def test_a_folder_keeps_the_order_and_tells_another_one(home: Path, tmp_path: Path) -> None:
    m = sequence(norm=nn.LayerNorm(8), act=nn.GELU())
    folder = save(delivered(m, (X,), home), tmp_path / "saved", cache_dir=home)
    other = sequence(act=nn.GELU(), norm=nn.LayerNorm(8))
    with torch.no_grad():
        for loaded, want in ((kernelwright.load(folder), m), (kernelwright.load(folder, other), other)):
            torch.testing.assert_close(loaded(X), want(X))
        looping = Looping().eval()
        folder = save(delivered(looping, (X,), home), tmp_path / "looping", cache_dir=home)
        fast: Any = kernelwright.load(folder)
        for given in (X, X[:2]):  # kernel and original
            torch.testing.assert_close(fast(given), looping(given))
    assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 1)


class Model(nn.Module):
    """Goes through its parameters when it is made, and no more afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        for parameter in self.parameters():
            nn.init.uniform_(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


def test_where_no_code_goes_by_the_order_it_does_not_count(home: Path) -> None:
    m = Model().eval()
    fast: Any = delivered(m, (X,), home).module
    for module in (fast, m):
        prune.l1_unstructured(module.linear, "weight", amount=0.5)
        prune.remove(module.linear, "weight")  # the weight stands behind the bias now
        assert [*module.linear._parameters] == ["bias", "weight"]
    with torch.no_grad():
        torch.testing.assert_close(fast(X), m(X))
    assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 0)


SOURCE = """
import torch
from torch import nn

class ModelNew(nn.LayerNorm):
    def __init__(self):
        super().__init__(8)
"""


def test_operators_take_weights_in_the_order_of_their_own_module(home: Path) -> None:
    found = []
    for is_moved in (False, True):
        m = nn.LayerNorm(8).eval()
        m.weight.data.copy_(X[0])
        if is_moved:
            again(m, "weight")
        torch._dynamo.reset()
        fast = delivered(m, (X,), home, source=SOURCE).module
        compiled = torch.compile(fast, backend="eager", fullgraph=True)
        with torch.no_grad():
            found.append((compiled(X), m(X)))
    for one, other in found:
        torch.testing.assert_close(one, other)
