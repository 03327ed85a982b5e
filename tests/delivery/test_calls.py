"""Calls that differ in more than their tensors or write to their arguments, and what kernels return."""

import copy
import gc
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from tests.delivery.delivering import delivered, printed
from torch import nn

import kernelwright
from kernelwright.delivery.making import deliver
from kernelwright.delivery.runtime.contract import TensorFacts
from kernelwright.delivery.saving import save
from kernelwright.tasks.kernelbench import load_task

KERNEL = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()

    def forward(self, {takes}):
        return {returns}
"""
X = torch.linspace(-2.0, 3.0, 32).reshape(4, 8)


def kernel(returns: str, takes: str = "x") -> str:
    return KERNEL.format(takes=takes, returns=returns)


# -- one kernel, several plain values ----------------------------------------------------------------

SCALED = """
import torch
from torch import nn
scale = 2.0
class Model(nn.Module):
    def forward(self, x, scale):
        return torch.relu(x) * scale
def get_inputs():
    return [torch.randn(4, 8), scale]
def get_init_inputs():
    return []
WORKLOADS = {"a": {"scale": 2.0}, "b": {"scale": 3.0}}
"""


@pytest.fixture
def scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "scaled.py"
    file.write_text(SCALED)
    task = load_task(file)
    return deliver(printed(task), task)


def compiled(fast: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(fast, backend="eager", fullgraph=True)


HOW: dict[str, Callable[[Any, float], torch.Tensor]] = {
    "first call": lambda f, scale: f(X, scale),
    "by keyword": lambda f, scale: f(scale=scale, x=X),
    "copy": lambda f, scale: copy.deepcopy(f)(X, scale),
    "parameter as input": lambda f, scale: f(nn.Parameter(X), scale),
    "compiled": lambda f, scale: compiled(f)(X, scale),
    "under a mode": lambda f, scale: watched(f, scale),
}


def watched(fast: Any, scale: float) -> torch.Tensor:
    from torch.fx.experimental.proxy_tensor import make_fx

    found: torch.Tensor = make_fx(lambda x: fast(x, scale))(X)(X)
    return found


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
def test_workloads_that_differ_in_a_plain_value_are_told_apart(scaled: Any, how: Any) -> None:
    fast = scaled.module
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scale in (3.0, 2.0, 3.0):
            torch.testing.assert_close(how(fast, scale), torch.relu(X) * scale)
        assert fast.report().original_calls == 0
        torch.testing.assert_close(how(fast, 4.0), torch.relu(X) * 4)


def test_gradients_are_those_of_the_plain_value(scaled: Any, tmp_path: Path) -> None:
    loaded = kernelwright.load(save(scaled, tmp_path / "saved", cache_dir=tmp_path))
    for fast in (scaled.module, loaded):
        operators: Any = vars(type(fast))["_kernelwright_operators"]
        for operator, scale in zip(operators, (2.0, 3.0), strict=True):
            x = X.clone().requires_grad_()
            operator(x).sum().backward()
            torch.testing.assert_close(x.grad, (X > 0) * scale)


class Formed(nn.Module):
    def forward(self, x: torch.Tensor, is_named: bool) -> Any:
        y = torch.tanh(x)
        return {"y": y} if is_named else (y,)


def test_workloads_whose_results_have_another_form_are_told_apart(tmp_path: Path) -> None:
    made: Any = delivered(Formed().eval(), [(X, True), (X, False)], tmp_path, source=kernel("torch.tanh(x)"))
    for fast in (made.module, copy.deepcopy(made.module), compiled(made.module)):
        for is_named in (False, True, False):
            assert type(fast(X, is_named)) is type(Formed()(X, is_named))
    assert made.module.report().original_calls == 0


# -- calls that write to their arguments -------------------------------------------------------------


class Overwrites(nn.Module):
    def forward(self, d: dict[str, Any]) -> Any:
        d["x"] = torch.tanh(d["x"])
        return d


class Grows(nn.Module):
    def forward(self, d: dict[str, Any]) -> Any:
        d["h"] = torch.tanh(d["x"])
        return d


class Counts(nn.Module):
    def forward(self, d: dict[str, Any]) -> Any:
        d["n"] = d["n"] * 1.0
        return torch.tanh(d["x"])


class Appends(nn.Module):
    def forward(self, d: dict[str, Any]) -> Any:
        d["cache"].append(d["x"] * 2)
        return torch.tanh(d["x"])


class InPlace(nn.Module):
    def forward(self, d: dict[str, Any]) -> Any:
        return d["x"].relu_() + 1


def arguments() -> dict[str, Any]:
    return {"x": X.clone(), "n": 1, "cache": []}


@pytest.mark.parametrize("kind", [Overwrites, Grows, Counts, Appends, InPlace])
def test_a_call_that_writes_to_its_arguments_runs_the_original(kind: type[nn.Module], tmp_path: Path) -> None:
    returns = "(x, torch.tanh(x))" if kind is Grows else "torch.tanh(x)"
    made: Any = delivered(kind().eval(), (arguments(),), tmp_path, source=kernel(returns))
    ours, theirs = arguments(), arguments()
    torch.testing.assert_close(made.module(ours), kind()(theirs))
    assert ours.keys() == theirs.keys() and type(ours["n"]) is type(theirs["n"])
    torch.testing.assert_close(list(ours.values()), list(theirs.values()))
    assert "a call changes argument d" in str(made.module.report())


# -- what the kernel returns -------------------------------------------------------------------------


class Two(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(x), torch.relu(x)


class One(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return (torch.tanh(x),)


class Bare(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(x)


class Listed(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return [torch.tanh(x), torch.relu(x)]


@pytest.mark.parametrize(
    ("kind", "returns"),
    [
        (Two, "[torch.tanh(x), torch.relu(x)]"),
        (Two, "((torch.tanh(x),), [torch.relu(x)])"),
        (One, "torch.tanh(x)"),
        (One, "[torch.tanh(x)]"),
        (Bare, "[torch.tanh(x)]"),
        (Bare, "nn.Parameter(torch.tanh(x))"),
        (Listed, "(torch.tanh(x), (torch.relu(x),))"),
    ],
)
def test_a_result_has_the_original_s_containers(kind: type[nn.Module], returns: str, tmp_path: Path) -> None:
    fast: Any = delivered(kind().eval(), (X,), tmp_path, source=kernel(returns)).module
    for _ in range(2):
        ours, theirs = fast(X), kind()(X)
        assert type(ours) is type(theirs) or kind is Bare
        torch.testing.assert_close(ours, theirs)
    assert fast.report().original_calls == 0


# -- names, weights and devices that are not the module's own -----------------------------------------


class Reporting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.report = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        return self.report(x)


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))

    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(x) * self.weight


WEIGHTED = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(8))

    def forward(self, x):
        return torch.tanh(x) * self.weight
"""


def test_a_submodule_called_report_stays_the_original_s(tmp_path: Path) -> None:
    module = Reporting().eval()
    fast: Any = delivered(module, (X,), tmp_path).module
    with torch.no_grad():
        torch.testing.assert_close(fast(X), module(X))
        torch.testing.assert_close(fast(X[:2]), module(X[:2]))
    assert type(fast.report) is nn.Linear
    assert kernelwright.report(fast).kernel_calls == kernelwright.report(fast).original_calls == 1
    later: Any = delivered(Weighted().eval(), (X,), tmp_path, source=WEIGHTED).module
    assert later.report().kernel_calls == 0
    later.report = nn.Tanh()
    assert type(later.report) is nn.Tanh and type(copy.deepcopy(later).report) is nn.Tanh


def test_weights_of_one_call_are_not_kept(tmp_path: Path) -> None:
    fast: Any = delivered(Weighted().eval(), (X,), tmp_path, source=WEIGHTED).module
    operator = type(fast)._kernelwright_operators[0]
    with torch.no_grad():
        calls: list[Callable[[torch.Tensor], torch.Tensor]] = [
            lambda w: torch.func.functional_call(fast, {"weight": w}, (X,)),
            lambda w: operator(X, w),
        ]
        for call in calls:
            weight = torch.full((8,), 2.0)
            known = weakref.ref(weight)
            torch.testing.assert_close(call(weight), torch.tanh(X) * 2)
            del weight
            gc.collect()
            assert known() is None
        torch.testing.assert_close(fast(X), Weighted()(X))
    assert (fast.report().kernel_calls, fast.report().original_calls) == (3, 0)


def test_replicas_that_begin_at_once_have_calls_of_their_own(tmp_path: Path) -> None:
    fast: Any = delivered(Weighted().eval(), (X,), tmp_path, source=WEIGHTED).module
    fast.to(torch.float32)  # lets go of what was bound
    replicas = []
    for scale in (2.0, 3.0):
        replica = fast._replicate_for_data_parallel()
        replica._parameters = {"weight": nn.Parameter(torch.full((8,), scale))}
        replicas.append(replica)
    with torch.no_grad():
        for replica in replicas:
            replica(X)
        for replica, scale in zip(replicas, (2.0, 3.0), strict=True):
            torch.testing.assert_close(replica(X), torch.tanh(X) * scale)
    states = {id(module._kernelwright) for module in (fast, *replicas)}
    assert len(states) == 3


def test_a_tensor_of_another_device_of_its_kind_is_none_that_was_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    facts = TensorFacts((4, 8), (8, 1), "float32", "cuda")
    there = SimpleNamespace(device=torch.device("cuda", 1))
    found = facts.difference(cast(Any, there))
    assert found == ("device", "is on cuda:1, and kernels start on cuda:0")


class Choosing(nn.Module):
    def forward(self, x: torch.Tensor, dims: tuple[int, ...] = (1,), opts: Any = None) -> torch.Tensor:
        y = torch.tanh(x) if opts is None else torch.tanh(x) * 3
        return y.sum(dims) if dims else y


@pytest.mark.parametrize("given", [{"dims": ()}, {"opts": {}}, {"opts": ()}])
def test_an_argument_that_is_empty_was_given(given: dict[str, Any], tmp_path: Path) -> None:
    m = Choosing().eval()
    fast: Any = delivered(m, (X,), tmp_path).module
    for each in (fast, copy.deepcopy(fast), compiled(fast)):
        torch.testing.assert_close(each(X), m(X))
        torch.testing.assert_close(each(X, **given), m(X, **given))
    with kernelwright.strict(), pytest.raises(kernelwright.NotVerifiedError, match="was given"):
        fast(X, **given)
    torch.testing.assert_close(fast(X, dims=(1,)), m(X))
    assert fast.report().original_calls == 1


class Open(nn.Module):
    def forward(self, x: torch.Tensor, *more: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * (1 + len(more) + len(named))


def test_arguments_that_a_forward_takes_any_number_of_may_be_none(tmp_path: Path) -> None:
    fast: Any = delivered(Open().eval(), (X,), tmp_path).module
    for x in (X, X.clone().as_subclass(nn.Parameter)):
        torch.testing.assert_close(fast(x, *(), **{}), torch.tanh(X))
    torch.testing.assert_close(fast(X, X), torch.tanh(X) * 2)
    assert (fast.report().kernel_calls, fast.report().original_calls) == (2, 1)
