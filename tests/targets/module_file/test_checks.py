"""A printed file refuses, in one line, whatever its kernels were not verified on."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.delivery.delivering import printed
from torch import nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from kernelwright.core.task import Task
from kernelwright.tasks.live import task_from_module

SOURCE = """
import torch
from torch import nn

START = 0.5

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1.0, 1.0, 8))
        self.linear = nn.Linear(8, 8)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x, factor, flag=True, start=START, mask=None):
        y = self.linear(torch.tanh(x) * self.weight * factor) + self.shift + start
        return y if flag else -y

def get_inputs():
    return [torch.rand(4, 8), 3.5]

def get_init_inputs():
    return []
"""


class Scaled(torch.Tensor):
    """Holds its elements elsewhere."""

    elements: torch.Tensor

    @staticmethod
    def __new__(cls, elements: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, elements.shape, dtype=elements.dtype)
        made.elements = elements
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*(a.elements if isinstance(a, Scaled) else a for a in args), **(kwargs or {}))


class Own(nn.Parameter):
    """A parameter like any other."""


class Watching(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def drawn() -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


def loaded(source: str) -> Any:
    module = ModuleType("candidate")
    exec(compile(source, "candidate.py", "exec"), module.__dict__)
    torch.manual_seed(0)
    return module.ModelNew()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield printed(Task(name="t", source=SOURCE)).source


@pytest.fixture
def new(text: str) -> Any:
    return loaded(text)


@pytest.fixture
def original() -> Any:
    namespace: dict[str, Any] = {}
    exec(SOURCE, namespace)
    torch.manual_seed(0)
    return namespace["Model"]()


def put(name: str, tensor: torch.Tensor | None) -> Callable[[Any], Any]:
    return lambda f: setattr(f, name, tensor)


WEIGHTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "half": (lambda f: f.half(), r"weight is \(8,\) torch.float16"),
    "double": (lambda f: f.double(), r"weight is \(8,\) torch.float64"),
    "one layer": (lambda f: f.linear.double(), r"linear.weight is \(8, 8\) torch.float64"),
    "integers": (put("shift", torch.ones(8, dtype=torch.int32)), r"shift is \(8,\) torch.int32"),
    "another device": (lambda f: f.to("meta"), r"weight is \(8,\) torch.float32 on meta"),
    "fewer elements": (put("shift", torch.ones(1)), r"shift is \(1,\)"),
    "another shape": (put("weight", nn.Parameter(torch.ones(1, 8))), r"weight is \(1, 8\)"),
    "memory elsewhere": (put("shift", Scaled(torch.ones(8))), r"shift is Scaled \(8,\)"),
}


@pytest.mark.parametrize(("change", "why"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_weights_that_were_not_verified_are_refused(new: Any, change: Callable[[Any], Any], why: str) -> None:
    change(new)
    with torch.no_grad(), pytest.raises(ValueError, match=rf"{why}.*made for.*use the original") as caught:
        new(drawn(), 3.5)
    assert "\n" not in str(caught.value)


def test_weights_that_came_back_and_parameters_of_other_classes_are_read(new: Any, original: Any) -> None:
    new.double().float()
    new.weight = Own(original.weight.detach() * 2)
    original.weight = nn.Parameter(original.weight.detach() * 2)
    with torch.no_grad():
        torch.testing.assert_close(new(drawn(), 3.5), original(drawn(), 3.5))


CALLS: dict[str, tuple[tuple[Any, ...], str]] = {
    "type": ((drawn().double(), 3.5), r"got \(4, 8\) torch.float64 on cpu"),
    "shape": ((drawn()[:3], 3.5), r"got \(3, 8\)"),
    "no rows": ((drawn()[:0], 3.5), r"got \(0, 8\)"),
    "device": ((drawn().to("meta"), 3.5), r"got .* on meta"),
    "memory elsewhere": ((Scaled(drawn()), 3.5), r"got Scaled \(4, 8\)"),
    "a class of the user's": ((drawn().as_subclass(type("Named", (torch.Tensor,), {})), 3.5), "got Named"),
    "number": ((drawn(), 2.0), "factor=2.0"),
    "number of another type": ((drawn(), torch.tensor(3.5)), r"factor=\(\) torch.float32 on cpu"),
    "flag": ((drawn(), 3.5, False), "flag=False"),
    "a name's value": ((drawn(), 3.5, True, 0.25), "start=0.25"),
    "what was None": ((drawn(), 3.5, True, 0.5, drawn()), r"mask=\(4, 8\) torch.float32 on cpu"),
}


@pytest.mark.parametrize(("call", "why"), CALLS.values(), ids=CALLS.keys())
def test_calls_that_were_not_verified_are_refused(new: Any, call: tuple[Any, ...], why: str) -> None:
    wanted = rf"made for \(4, 8\) torch.float32, factor=3.5, flag=True, start=START, mask=None; .*{why}"
    with torch.no_grad(), pytest.raises(ValueError, match=wanted) as caught:
        new(*call)
    assert "\n" not in str(caught.value)


def test_what_means_the_same_is_accepted(new: Any, original: Any) -> None:
    calls = [
        ((drawn(), 3.5, True, 0.5, None), {}),
        ((drawn().t().contiguous().t(), 3.5), {"flag": True}),
        ((drawn()[:1].expand(4, 8), 3.5), {}),
        ((nn.Parameter(drawn()), 3.5), {}),
    ]
    with torch.no_grad():
        for args, kwargs in calls:
            torch.testing.assert_close(new(*args, **kwargs), original(*args, **kwargs))


def forward_mode(f: Any) -> Any:
    with torch.no_grad(), forward_ad.dual_level():
        return f(forward_ad.make_dual(drawn(), drawn()), 3.5)


def counted(f: Any) -> Any:
    with torch.no_grad(), FlopCounterMode(display=False):
        return f(drawn(), 3.5)


def watched(f: Any) -> Any:
    with torch.no_grad(), Watching():  # type: ignore[no-untyped-call]
        return f(drawn(), 3.5)


class One(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x, 3.5)


USES: dict[str, Callable[[Any], Any]] = {
    "torch.jit.trace": lambda f: torch.jit.trace(One(f), (drawn(),)),
    "make_fx": lambda f: make_fx(lambda x: f(x, 3.5))(drawn()),
    "forward mode": forward_mode,
    "torch.func.jvp": lambda f: torch.func.jvp(lambda x: f(x, 3.5), (drawn(),), (drawn(),)),
    "torch.func.vmap": lambda f: torch.func.vmap(lambda x: f(x, 3.5))(drawn().expand(2, 4, 8)),
    "gradients of weights": lambda f: torch.func.grad(
        lambda w: torch.func.functional_call(f, {"weight": w}, (drawn(), 3.5)).sum()
    )(torch.ones(8)),
    "a dispatch mode": counted,
    "a function mode": watched,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_who_records_operators_is_told_that_kernels_are_none(new: Any, use: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError, match="a kernel file cannot be traced or transformed"):
        use(new)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_default_device_is_not_the_kernels_matter(new: Any, original: Any, device: str) -> None:
    with torch.no_grad(), torch.device(device):
        found = new(drawn_on_cpu(), 3.5)
    with torch.no_grad():
        torch.testing.assert_close(found, original(drawn_on_cpu(), 3.5))


def drawn_on_cpu() -> torch.Tensor:
    return torch.arange(32.0, device="cpu").view(4, 8)


class Imaginary(nn.Module):
    """Takes every other number of a complex tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)


def test_a_view_that_negates_is_read_as_what_it_is(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    x = torch.randn(4, 8, dtype=torch.complex64)
    new = loaded(printed(task_from_module(Imaginary(), (x.imag,), name="t", folder=tmp_path)).source)
    with torch.no_grad():
        torch.testing.assert_close(new(x.conj().imag), torch.tanh(-x.imag))


def test_a_kernel_among_layers_that_train_says_that_its_weights_would_not(new: Any) -> None:
    network = nn.Linear(8, 1)
    x = drawn()
    with torch.no_grad():
        want = new(x, 3.5)
        assert not want.requires_grad
    hidden = new(x, 3.5)
    torch.testing.assert_close(hidden.detach(), want)
    with pytest.raises(RuntimeError, match=r"no gradients: call it under torch.no_grad\(\)"):
        network(hidden).sum().backward()
    assert hidden.add_(1.0).requires_grad and not x.requires_grad
    frozen = new.requires_grad_(False)
    network(frozen(x, 3.5)).sum().backward()
    assert network.weight.grad is not None


def test_a_file_marks_every_result_and_takes_keywords() -> None:
    source = SOURCE.replace("factor, flag", "factor, *, flag").replace(
        "return y if flag else -y", "return y, x, y > 0"
    )
    file = loaded(printed(Task(name="marked", source=source)).source)
    x = drawn()
    found = file(x, 3.5, flag=True)
    assert type(found) is tuple and found[0].requires_grad and not x.requires_grad
    assert not found[2].requires_grad
    torch.testing.assert_close(found[1].detach(), x)
