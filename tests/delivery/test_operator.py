"""Each kernel is a custom operator that compilers, exporters and autograd can work with."""

import copy
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered, printed
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from kernelwright.delivery.making import deliver
from kernelwright.delivery.runtime.contract import TensorFacts
from kernelwright.delivery.runtime.operator import _fits
from kernelwright.delivery.runtime.operator import operator_of as operator_for
from kernelwright.tasks.live import task_from_module

SHAPE = (6, 16)


class Gate(nn.Module):
    """A kernel with two inputs, a weight and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 16))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate = torch.sigmoid(x * self.weight)
        return gate * y, gate.sum(-1)


class Counting(nn.Module):
    """A kernel that writes: the running statistics of a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x)) * 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        yield {
            "gate": delivered(Gate().eval(), inputs(), folder).module,
            "counting": delivered(Counting().train(), inputs()[:1], folder).module,
        }


@pytest.fixture
def gate(made: dict[str, Any]) -> Any:
    return copy.deepcopy(made["gate"])


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    one = torch.Generator().manual_seed(0)
    return torch.randn(SHAPE, generator=one), torch.randn(SHAPE, generator=one)


def operator_of(module: Any) -> Any:
    return type(module)._kernelwright_operators[0]


@pytest.mark.filterwarnings("ignore")
def test_opcheck_with_and_without_gradients(gate: Any, made: dict[str, Any]) -> None:
    weight = gate.weight.detach()
    torch.library.opcheck(operator_of(gate), (*inputs(), weight))
    wanting = [tensor.clone().requires_grad_() for tensor in (*inputs(), weight)]
    torch.library.opcheck(operator_of(gate), tuple(wanting))
    counting = made["counting"]
    written = str(operator_of(counting)._schema)
    assert written.count("!") == 3  # mean, variance and the count of batches
    state = [tensor.detach().clone() for tensor in counting.state_dict().values()]
    torch.library.opcheck(operator_of(counting), (inputs()[0], *state))


def test_gradients_of_the_operator_are_the_original_s(gate: Any) -> None:
    ours = [t.clone().requires_grad_() for t in (*inputs(), gate.weight.detach())]
    theirs = [t.clone().requires_grad_() for t in (*inputs(), gate.weight.detach())]
    a, b = operator_of(gate)(*ours)
    c, d = torch.func.functional_call(Gate(), {"weight": theirs[2]}, tuple(theirs[:2]))
    (a.square().sum() + b.sum()).backward()
    (c.square().sum() + d.sum()).backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_has_one_graph_with_the_operator_in_it(gate: Any, backend: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(gate, fullgraph=True, backend=backend)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs()), Gate()(*inputs()))
        before = gate.report().kernel_calls
        assert before > 0
        half = tuple(tensor[:3] for tensor in inputs())
        torch.testing.assert_close(compiled(*half), Gate()(*half))
        assert gate.report().kernel_calls == before
        gate.weight.data.mul_(2)
        want = Gate()
        want.weight.data.mul_(2)
        torch.testing.assert_close(compiled(*inputs()), want(*inputs()))
    x, y = inputs()
    compiled(x.requires_grad_(), y)[0].sum().backward()
    assert x.grad is not None and gate.weight.grad is not None


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_graph_writes_what_the_original_writes(made: dict[str, Any]) -> None:
    torch._dynamo.reset()
    fast, m = copy.deepcopy(made["counting"]), Counting().train()
    m.load_state_dict(fast.state_dict())
    compiled = torch.compile(fast, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(inputs()[0]), m(inputs()[0]))
    for name, tensor in m.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[name], tensor)


@pytest.mark.filterwarnings("ignore")
def test_export_and_make_fx_hold_the_operator(gate: Any) -> None:
    with torch.no_grad():
        exported = torch.export.export(gate, inputs())
        traced = make_fx(gate)(*inputs())
        for graph, call in ((exported.graph, exported.module()), (traced.graph, traced)):
            assert any(node.target is operator_of(gate) for node in graph.nodes)
            torch.testing.assert_close(tuple(call(*inputs())), Gate()(*inputs()))
    training = torch.export.export(gate, inputs())  # gradients are on: the original is exported
    assert not any(node.target is operator_of(gate) for node in training.graph.nodes)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_inductor_and_aotinductor_run_it(gate: Any, tmp_path: Any) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(gate, fullgraph=True)(*inputs()), Gate()(*inputs()))
        exported = torch.export.export(gate, inputs())
        package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "m.pt2"))
        loaded = torch._inductor.aoti_load_package(package)
        torch.testing.assert_close(tuple(loaded(*inputs())), Gate()(*inputs()))


def test_vmap_of_the_operator_calls_it_for_each(gate: Any) -> None:
    x, y = inputs()
    many = torch.vmap(operator_of(gate), in_dims=(0, None, None))(
        torch.stack([x, x * 2]), y, gate.weight.detach()
    )
    for number, factor in enumerate((1, 2)):
        one = Gate()(x * factor, y)
        torch.testing.assert_close(tuple(part[number] for part in many), tuple(t.detach() for t in one))


def test_a_name_of_digits_and_signs_names_an_operator(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("7_Gate", "--", "é1"):
        task = task_from_module(Gate().eval(), inputs(), name=name, folder=tmp_path)
        fast: Any = deliver(printed(task), task, Gate().eval()).module
        assert str(operator_of(fast)).startswith("kernelwright.kernel_")
        torch.testing.assert_close(operator_of(fast)(*inputs(), fast.weight.detach()), Gate()(*inputs()))


def test_an_operator_called_with_other_shapes_says_so(gate: Any) -> None:
    x, y = inputs()
    wanted = r"Gate: the kernel was verified on \(6, 16\) float32 on cpu, .* not on"
    with pytest.raises(RuntimeError, match=wanted):
        operator_of(gate)(x[:2], y[:2], gate.weight.detach())


def test_an_operator_called_with_another_weight_names_that(gate: Any) -> None:
    wanted = r"Gate: the kernel was verified with weight as .* float32 on cpu, not as .* float64 .*; convert"
    with pytest.raises(RuntimeError, match=wanted):
        operator_of(gate)(*inputs(), gate.weight.detach().double())


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer", [lambda: nn.Linear(4, 4), lambda: nn.BatchNorm1d(4)], ids=["read", "written"]
)
def test_more_weights_than_a_schema_takes_go_in_lists(layer: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    torch.manual_seed(0)
    m = nn.Sequential(*[layer() for _ in range(34)])
    x = torch.randn(6, 4)
    fast: Any = delivered(m, (x,), tmp_path).module
    expected = copy.deepcopy(m)
    compiled = torch.compile(fast, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for call in (fast, compiled):
            torch.testing.assert_close(call(x), expected(x))
    assert fast.report().original_calls == 0
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[name], value)


def test_an_operator_with_lists_has_gradients_and_a_batch(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    torch.manual_seed(0)
    m = nn.Sequential(*[nn.Linear(4, 4) for _ in range(34)])
    x = torch.randn(3, 6, 4)
    made = delivered(m, (x[0],), tmp_path)
    operator = operator_for(made.kernel, m)
    weights = [p.detach().clone().requires_grad_() for p in m.parameters()]
    operator(x[0], *weights).pow(2).sum().backward()
    m(x[0]).pow(2).sum().backward()
    for weight, parameter in zip(weights, m.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, parameter.grad)
    with torch.no_grad():
        found = torch.vmap(lambda row: operator(row, *[weight.detach() for weight in weights]))(x)
        torch.testing.assert_close(found, m(x))


class Slow(nn.Module):
    """Reads its weight twice, and lets other threads run in between."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x) * self.weight
        time.sleep(0.002)
        return y * self.weight


def test_threads_have_the_gradients_of_their_own_weights(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    x = torch.randn(4, 8)
    operator = operator_of(delivered(Slow().eval(), (x,), tmp_path).module)

    def gradient(factor: int) -> torch.Tensor:
        weight = torch.full((8,), float(factor), requires_grad=True)
        operator(x, weight).sum().backward()
        assert weight.grad is not None
        return weight.grad

    factors = [*range(1, 9)] * 4
    with ThreadPoolExecutor(8) as pool:
        for factor, found in zip(factors, pool.map(gradient, factors), strict=True):
            torch.testing.assert_close(found, 2 * factor * torch.tanh(x).sum(0))


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(12.0).view(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) @ self.weight


ADDRESSES = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, 4))

    def forward(self, x):
        return torch.tanh(x.as_strided((2, 3), (3, 1))) @ self.weight.as_strided((3, 4), (4, 1))
"""


def test_an_operator_reads_tensors_that_lie_otherwise(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    m, x = Turned().eval(), torch.randn(2, 3)
    fast: Any = delivered(m, (x,), tmp_path, source=ADDRESSES).module
    weight = m.weight.detach()
    for given in (x, x.t().contiguous().t()):
        for held in (weight, weight.t().contiguous().t()):
            torch.testing.assert_close(operator_of(fast)(given, held), m(x).detach())
    with torch.no_grad():
        exported = torch.export.export(fast, (x,)).module()
        torch.testing.assert_close(exported(torch.ones(3, 2).t()), m(torch.ones(2, 3)))


def test_an_operator_refuses_another_device_and_what_cannot_be_copied() -> None:
    found = TensorFacts((6, 16), (16, 1), "float32", "cuda")
    assert not _fits(torch.ones(6, 16), found) and _fits(torch.ones(6, 16, device="meta"), found)
    expanded = TensorFacts((6, 16), (0, 1), "float32", "cpu")  # of which no copy can be made
    assert not _fits(torch.ones(6, 16), expanded) and _fits(torch.ones(16).expand(6, 16), expanded)
