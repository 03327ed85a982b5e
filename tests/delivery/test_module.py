"""A delivered module means in every respect what its original means, and says which one ran."""

import copy
import inspect
import io
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import kernelwright
from kernelwright.core.errors import TaskError
from kernelwright.delivery.making import Delivery
from kernelwright.delivery.runtime.module import ModuleState

SHAPE = (4, 6, 32)


class Norm(nn.Module):
    """One kernel, with what modules have: a parameter, attributes, a method, an inner module."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.register_buffer("shift", torch.linspace(-1.0, 1.0, width))
        self.drop = nn.Dropout(0.0)
        self.eps = 1e-6
        self.hidden_size = width

    def forward(
        self, hidden_states: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0
    ) -> torch.Tensor:
        """Normalise."""
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        out = self.weight * self.drop(hidden_states * torch.rsqrt(variance + self.eps)) + self.shift
        out = out if mask is None else out * mask
        return out * scale

    def doubled(self) -> torch.Tensor:
        return self.weight * 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Delivery]:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        yield delivered(Norm(32).eval(), (torch.randn(SHAPE),), folder)


@pytest.fixture
def fast(made: Delivery) -> Any:
    return copy.deepcopy(made.module)


@pytest.fixture
def m() -> Any:
    return Norm(32).eval()


def x(seed: int = 0) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))


def same(fast: Any, original: Any, *args: Any, **kwargs: Any) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(fast(*args, **kwargs), original(*args, **kwargs))


def ran(module: Any) -> tuple[int, int]:
    return module.report().kernel_calls, module.report().original_calls


def test_it_is_one_of_the_original_s_class(fast: Any, m: Any) -> None:
    assert isinstance(fast, Norm) and type(fast).__name__ == "Norm" and repr(fast) == repr(m)
    assert inspect.signature(fast.forward) == inspect.signature(m.forward)
    assert fast.forward.__doc__ == "Normalise." and fast.hidden_size == 32
    assert torch.equal(fast.doubled(), m.doubled())
    assert list(fast.state_dict()) == list(m.state_dict())
    assert [n for n, _ in fast.named_modules()] == [n for n, _ in m.named_modules()]


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(x()),
        lambda f: f(hidden_states=x()),
        lambda f: f(x(), None),
        lambda f: f(x(), mask=None, scale=1.0),
        lambda f: f(x(), scale=1.0 + 0.0),
    ],
    ids=["position", "keyword", "none", "defaults", "equal default"],
)
def test_however_it_is_called_the_kernel_runs(fast: Any, m: Any, call: Callable[[Any], Any]) -> None:
    with torch.no_grad():
        torch.testing.assert_close(call(fast), call(m))
    assert ran(fast) == (1, 0)


def change_weight(module: Any) -> None:
    module.weight = nn.Parameter(module.weight.detach() * 3)


def change_buffer(module: Any) -> None:
    module.shift = module.shift * 2


def load(module: Any, *, assign: bool) -> None:
    state = {name: value.clone() * 1.5 for name, value in module.state_dict().items()}
    module.load_state_dict(state, assign=assign)


KERNEL_FOLLOWS: dict[str, Callable[[Any], Any]] = {
    "in place": lambda f: f.weight.data.mul_(2),
    "replaced parameter": change_weight,
    "replaced buffer": change_buffer,
    "load_state_dict": lambda f: load(f, assign=False),
    "load_state_dict assign": lambda f: load(f, assign=True),
    "data": lambda f: setattr(f.weight, "data", f.weight.data.flip(0).contiguous()),
    "new attribute": lambda f: setattr(f, "note", "mine"),
    "there and back": lambda f: f.double().float(),
    "requires no grad": lambda f: f.requires_grad_(False),
}


@pytest.mark.parametrize("change", KERNEL_FOLLOWS.values(), ids=KERNEL_FOLLOWS.keys())
def test_the_kernel_follows_its_weights(fast: Any, m: Any, change: Callable[[Any], Any]) -> None:
    same(fast, m, x())
    change(fast)
    change(m)
    same(fast, m, x(1))
    assert ran(fast) == (2, 0)


ORIGINAL_RUNS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "train": (lambda f: f.train(), "train mode"),
    "inner train": (lambda f: f.drop.train(), "drop is in train mode"),
    "attribute": (lambda f: setattr(f, "eps", 0.5), "eps of the module is 0.5, verified with 1e-06"),
    "inner attribute": (lambda f: setattr(f.drop, "p", 0.5), "p of drop"),
    "inner hook": (lambda f: f.drop.register_forward_hook(lambda mod, a, out: out + 1), "drop has hooks"),
    "inner pre-hook": (lambda f: f.drop.register_forward_pre_hook(lambda mod, a: (a[0] + 1,)), "hooks"),
    "inner module": (lambda f: setattr(f, "drop", nn.ReLU()), "drop is a ReLU"),
    "inner forward": (lambda f: setattr(f.drop, "forward", torch.relu), "forward of drop was replaced"),
    "parametrization": (
        lambda f: nn.utils.parametrize.register_parametrization(f, "weight", nn.Tanh()),
        "added or removed",
    ),
    "transposed storage": (
        lambda f: setattr(f.weight, "data", torch.rand(64)[::2]),
        "weight has strides (2,), verified with (1,)",
    ),
}


@pytest.mark.parametrize(("change", "why"), ORIGINAL_RUNS.values(), ids=ORIGINAL_RUNS.keys())
def test_what_the_verdict_does_not_cover_runs_the_original(
    fast: Any, m: Any, change: Callable[[Any], Any], why: str
) -> None:
    same(fast, m, x())
    torch.manual_seed(0)
    change(fast)
    torch.manual_seed(0)
    change(m)
    same(fast, m, x(1))
    assert ran(fast) == (1, 1)
    assert why in str(dict(fast.report().reasons))


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "shape": (lambda f: f(x()[:2]), "shape (2, 6, 32), verified with (4, 6, 32)"),
    "strides": (lambda f: f(x().transpose(0, 1).contiguous().transpose(0, 1)), "strides"),
    "mask": (lambda f: f(x(), torch.ones(32)), "mask was given"),
    "scale": (lambda f: f(x(), scale=2.0), "scale was given"),
    "vmap": (lambda f: torch.vmap(f)(torch.stack([x(), x()])), "transform"),
    "autocast": (lambda f: _under(torch.autocast("cpu", dtype=torch.bfloat16), f), "autocast"),
    "jit.trace": (lambda f: torch.jit.trace(f, x(), check_trace=False)(x()), "torch.jit.trace"),
}


def _under(context: Any, f: Any) -> Any:
    with context:
        return f(x())


@pytest.mark.parametrize(("call", "why"), CALLS.values(), ids=CALLS.keys())
@pytest.mark.filterwarnings("ignore")
def test_calls_that_were_not_verified_run_the_original(
    fast: Any, m: Any, call: Callable[[Any], Any], why: str
) -> None:
    with torch.no_grad():
        torch.testing.assert_close(call(fast), call(m))
    assert fast.report().kernel_calls == 0 and why in str(dict(fast.report().reasons))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_mean_what_they_mean_for_the_original(fast: Any, m: Any, dtype: torch.dtype) -> None:
    fast.to(dtype)
    m.to(dtype)
    same(fast, m, x().to(dtype))
    same(fast, m, x())  # no NaN of a kernel that reads other memory
    assert ran(fast) == (0, 2)


def test_another_device_is_the_original_s_matter_and_ends_no_process(fast: Any) -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        fast(x().to("meta"))
    assert fast.to("meta")(x().to("meta")).is_meta
    fast.to_empty(device="cpu")
    fake, given = FakeTensorMode(allow_non_fake_inputs=True), x()
    with torch.no_grad():
        assert fast(fake.from_tensor(given)).shape == SHAPE
        with fake:
            assert fast(fake.from_tensor(given)).shape == SHAPE


def test_a_default_device_or_type_is_not_the_kernel_s(fast: Any, m: Any) -> None:
    given = x()
    with torch.no_grad(), torch.device("meta"):
        assert not fast(given).is_meta
    torch.set_default_dtype(torch.float64)
    try:
        same(fast, m, x().float())
    finally:
        torch.set_default_dtype(torch.float32)
    assert ran(fast) == (0, 2)


def test_a_default_device_of_the_kernel_s_kind_is_no_matter(fast: Any, m: Any) -> None:
    with torch.device("cpu"):
        same(fast, m, x())
    assert ran(fast) == (1, 0)


def test_a_weight_whose_memory_was_freed_is_the_original_s_matter(tmp_path: Path) -> None:
    m, given = nn.LayerNorm(32).eval(), torch.randn(4, 32)
    fast = delivered(m, (given,), tmp_path).module
    same(fast, m, given)
    for module in (m, fast):
        module.weight.untyped_storage().resize_(0)
        with torch.no_grad(), pytest.raises(RuntimeError):
            module(given)


class Pointwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.conv(x))


@pytest.mark.parametrize("turned", ["weights", "inputs"])
def test_results_lie_in_the_format_that_axes_of_one_element_tell(tmp_path: Path, turned: str) -> None:
    torch.manual_seed(0)
    m, given = Pointwise().eval(), torch.randn(2, 8, 6, 1)
    fast = delivered(m, (given,), tmp_path).module
    with torch.no_grad():
        assert fast(given).stride() == m(given).stride()
        if turned == "weights":
            m, fast = (each.to(memory_format=torch.channels_last) for each in (m, fast))
        else:
            given = given.to(memory_format=torch.channels_last)
        assert fast(given).stride() == m(given).stride()
    assert fast.report().kernel_calls == 1


class Thirds(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x / 3)


def test_a_compiled_module_heeds_the_default_type(tmp_path: Path) -> None:
    numbers = torch.arange(32).view(4, 8)
    compiled = torch.compile(delivered(Thirds(), (numbers,), tmp_path).module, backend="eager")
    with torch.no_grad():
        assert compiled(numbers).dtype is torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert compiled(numbers).dtype is torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
        assert compiled(numbers).dtype is torch.float32


def test_strides_of_axes_of_size_one_take_no_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = delivered(Thirds(), (torch.randn(1, 1, 8),), tmp_path).module
    last = torch.randn(1, 32, 8)[:, -1:, :]
    with torch.no_grad():
        fast(torch.randn(1, 1, 8))
        monkeypatch.setattr(ModuleState, "bind", lambda *args: pytest.fail("looked again"))
        torch.testing.assert_close(fast(last), torch.tanh(last / 3))
        assert ran(fast) == (2, 0)


def test_gradients_are_the_original_s_and_said_once(fast: Any, m: Any) -> None:
    a, b = x().requires_grad_(), x().requires_grad_()
    with pytest.warns(UserWarning, match=r"gradients are enabled .* use torch.no_grad\(\)"):
        fast(a).square().sum().backward()
    m(b).square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    torch.testing.assert_close(fast.weight.grad, m.weight.grad)
    fast(a)  # no second warning: warnings are errors here
    assert ran(fast) == (0, 2)
    fast.requires_grad_(False)
    assert not fast(x()).requires_grad and ran(fast) == (1, 2)


def copied(module: Any) -> Any:
    return copy.deepcopy(module)


def pickled(module: Any) -> Any:
    return pickle.loads(pickle.dumps(module))


def saved(module: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(nn.Sequential(module), buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)[0]


@pytest.mark.parametrize("again", [copied, pickled, saved, copy.copy])
def test_copies_are_modules_of_their_own(fast: Any, m: Any, again: Callable[[Any], Any]) -> None:
    same(fast, m, x())
    other = again(fast)
    assert type(other) is type(fast) and ran(other) == (0, 0)
    if again is not copy.copy:  # a shallow copy shares its tensors, as with any module
        other.weight.data.mul_(2)
    twice = copy.deepcopy(other)
    other.eps = 0.5
    want, slow = copy.deepcopy(m), copy.deepcopy(m)
    want.load_state_dict(other.state_dict())
    slow.load_state_dict(other.state_dict())
    slow.eps = 0.5
    same(other, slow, x())
    same(twice, want, x())
    same(fast, m, x())
    assert ran(twice) == (1, 0) and ran(other) == (0, 1) and ran(fast) == (2, 0)


def test_the_user_s_own_module_is_left_alone(made: Delivery) -> None:
    m = Norm(32).eval()
    fast = kernelwright.delivery.runtime.attach(made.kernel, copy.deepcopy(m))
    before = copy.deepcopy(m.state_dict())
    fast.double()
    fast.weight.data.zero_()
    assert all(torch.equal(m.state_dict()[name], value) for name, value in before.items())
    assert m(x()).dtype is torch.float32 and type(m) is Norm


def test_functional_call_uses_the_tensors_it_is_given(fast: Any, m: Any) -> None:
    for factor in (2.0, 3.0):
        given = {"weight": m.weight.detach() * factor}
        with torch.no_grad():
            ours = torch.func.functional_call(fast, given, (x(),))
            torch.testing.assert_close(ours, torch.func.functional_call(m, given, (x(),)))
    same(fast, m, x())
    assert ran(fast) == (3, 0)


def test_hooks_of_the_module_itself_run(fast: Any, m: Any) -> None:
    for module in (fast, m):
        module.register_forward_hook(lambda mod, args, out: out + 1)
        module.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
    same(fast, m, x())
    assert ran(fast) == (1, 0)


def test_calls_that_forward_does_not_take_raise_what_the_original_raises(fast: Any, m: Any) -> None:
    for args, kwargs in (((), {}), ((x(), None, 1.0, 2), {}), ((x(),), {"hidden_states": x()})):
        with pytest.raises(TypeError) as ours:
            fast(*args, **kwargs)
        with pytest.raises(TypeError) as theirs:
            m(*args, **kwargs)
        assert str(ours.value) == str(theirs.value)


def test_strict_mode_raises_instead(fast: Any) -> None:
    with kernelwright.strict(), torch.no_grad():
        fast(x())
        with pytest.raises(kernelwright.NotVerifiedError, match="the original would run: input 0 has shape"):
            fast(x()[:1])
    with torch.no_grad():
        fast(x()[:1])
    assert ran(fast) == (1, 1)


def test_a_report_of_a_model_sums_its_delivered_modules(fast: Any) -> None:
    model = nn.Sequential(fast, nn.ReLU(), copy.deepcopy(fast))
    with torch.no_grad():
        model(x())
        model(x()[:1])
    found = kernelwright.report(model)
    assert (found.kernel_calls, found.original_calls) == (2, 2)
    assert "2 x input 0 has shape (1, 6, 32)" in str(found)
    assert kernelwright.report(nn.ReLU()).kernel_calls == 0


def test_threads_and_inference_mode(fast: Any, m: Any) -> None:
    wrong = []

    def work(seed: int) -> None:
        with torch.inference_mode():
            for _ in range(20):
                if not torch.allclose(fast(x(seed)), m(x(seed)), atol=1e-5):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and fast.report().original_calls == 0


FROZEN = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.ready = None

    def forward(self, x):
        if self.ready is None:
            self.ready = self.weight * 2
        return x * self.ready
"""


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight * 2)


def test_frozen_weights_are_prepared_anew_when_they_change(tmp_path: Any) -> None:
    fast: Any = delivered(Twice(), (torch.ones(3),), tmp_path, source=FROZEN, is_frozen=True).module
    m, given = Twice(), torch.ones(3)
    same(fast, m, given)
    for change in (
        lambda f: f.weight.copy_(torch.ones(3)),
        lambda f: setattr(f, "weight", nn.Parameter(torch.zeros(3))),
        lambda f: setattr(f.weight, "data", torch.full((3,), 5.0)),
        lambda f: nn.init.ones_(f.weight),
    ):
        with torch.no_grad():
            change(fast)
            change(m)
        same(fast, m, given)
    assert fast.report().original_calls == 0


def placed_at(address: int, value: float) -> torch.Tensor:
    """Return a tensor that lies, where the allocator can do it, at an address that was let go of."""
    tries = [torch.full((1000,), value) for _ in range(32)]
    return next((tensor for tensor in tries if tensor.data_ptr() == address), tries[0])


def test_frozen_weights_are_told_apart_in_memory_that_is_used_again(tmp_path: Any) -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1000))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (self.weight * 2)

    source, given = FROZEN.replace("torch.ones(3)", "torch.ones(1000)"), torch.ones(1000)
    fast: Any = delivered(Wide(), (given,), tmp_path, source=source, is_frozen=True).module
    with torch.no_grad():
        for value in range(40):
            assert torch.equal(fast(given), fast.weight * 2)
            before = fast.weight.data_ptr()
            fast.weight.data = torch.full((1000,), -1.0)
            fast.weight.data = placed_at(before, float(value))
            assert torch.equal(fast(given), torch.full((1000,), 2.0 * value)), value
    assert fast.report().original_calls == 0


COUNTING = FROZEN.replace(
    "self.ready = self.weight * 2", "self.ready = self.weight * 2\n            made.append(1)"
)


def test_frozen_weights_are_prepared_once_for_calls_of_the_operator(tmp_path: Any) -> None:
    source = COUNTING.replace("class ModelNew", "made = []\n\nclass ModelNew")
    fast: Any = delivered(Twice(), (torch.ones(3),), tmp_path, source=source, is_frozen=True).module
    made = fast._kernelwright_kernel.namespace.made
    made.clear()  # of the examples
    compiled, given = torch.compile(fast, fullgraph=True, backend="aot_eager"), torch.ones(3)
    with torch.no_grad():
        for _ in range(5):
            assert torch.equal(compiled(given), torch.tensor([2.0, 4.0, 6.0]))
        assert len(made) == 1
        for value in range(20):
            fast.weight.data = torch.full((3,), -1.0)
            fast.weight.data = torch.full((3,), float(value))
            assert torch.equal(compiled(given), torch.full((3,), 2.0 * value)), value
            fast.weight.mul_(2)
            assert torch.equal(compiled(given), torch.full((3,), 4.0 * value)), value
        with torch.inference_mode():
            fast.weight = nn.Parameter(torch.ones(3), requires_grad=False)
            for _ in range(3):
                fast.weight.mul_(2)  # not counted by torch
                want = fast.weight * 2
                assert torch.equal(compiled(given), want)


def test_a_wrapper_around_forward_has_the_kernel(tmp_path: Any) -> None:
    fast: Any = delivered(Twice(), (torch.ones(3),), tmp_path, source=FROZEN, is_frozen=True).module
    inner = fast.forward
    fast.forward = lambda x: inner(x) + 1
    with torch.no_grad():
        assert torch.equal(fast(torch.ones(3)), torch.tensor([3.0, 5.0, 7.0]))
    assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 0)


def test_what_no_contract_can_name_is_refused_in_one_line(tmp_path: Any) -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.tensor

    class Holder:
        tensor = torch.ones(3)

    with pytest.raises(TaskError, match=r"the example holds a .*Holder; give tensors"):
        delivered(Odd(), (Holder(),), tmp_path)
    with pytest.raises(TaskError, match="unexpected keyword argument 'y'"):
        delivered(Twice(), (torch.ones(3),), tmp_path, {"y": 1})
