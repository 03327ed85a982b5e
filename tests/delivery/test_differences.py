"""What differs between a delivered module and its original is no difference to the caller: one row each."""

import copy
import dataclasses
import gc
import pickle
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered
from torch import nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import kernelwright
from kernelwright.core.errors import TaskError, UserError
from kernelwright.delivery.making import Delivery
from kernelwright.delivery.runtime import VerifiedKernel, attach
from kernelwright.delivery.runtime.described import MOST, code_of, description_of
from kernelwright.delivery.saving import save

pytestmark = pytest.mark.filterwarnings("ignore")


class Config:
    def __init__(self, factor: float) -> None:
        self.factor, self.kinds, self.inner = factor, {"a", "b"}, [self.__class__]


class Rich(nn.Module):
    """Everything that a forward can read."""

    scale = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)
        self.layers = nn.Sequential(nn.LayerNorm(8), nn.Sigmoid())
        self.twice = self.layers
        self.act = nn.Sigmoid()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.tied = self.weight
        self.register_buffer("shift", torch.ones(8))
        self.register_buffer("saved", None)
        self.register_buffer("unsaved", None, persistent=False)
        self.table = torch.full((8,), 2.0)
        self.sizes, self.names, self.pair = [2.0, 3.0], {"a": 2.0}, (2.0, 3.0)
        self.levels = {0: 1.0, 1: 3.0}
        self.config = Config(2.0)

    def finished(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.twice(self.layers(self.linear(torch.tanh(x)))) * self.weight + self.tied * self.shift
        for mask in (self.saved, self.unsaved):
            x = x if mask is None else x * mask
        x = self.act(x) * self.scale * self.sizes[0] * self.names["a"] * self.pair[0] * self.levels[0]
        return self.finished(x) * self.config.factor * self.table * getattr(self, "extra", 1.0)


class Mine(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 10


Mine.__name__ = Mine.__qualname__ = "Linear"
Linear = Mine  # where pickle looks for it


def parameter() -> nn.Parameter:
    return nn.Parameter(torch.linspace(-1.0, 1.0, 8))


def same_name(f: Any) -> None:
    other = Mine(8, 8, bias=False).eval()
    other.weight = f.linear.weight
    f.linear = other


CHANGES: dict[str, Callable[[Any], Any]] = {
    "bias where there was none": lambda f: setattr(f.linear, "bias", parameter()),
    "layer appended": lambda f: f.layers.append(nn.Tanh().eval()) and None,
    "layer deleted": lambda f: f.layers.__delitem__(1),
    "shared layer untied": lambda f: setattr(f, "twice", copy.deepcopy(f.layers)),
    "another activation": lambda f: setattr(f, "act", nn.Tanh().eval()),
    "class of the same name": same_name,
    "class of a layer": lambda f: setattr(f.act, "__class__", nn.Tanh),
    "forward of a layer": lambda f: setattr(f.act, "forward", torch.sin),
    "untied weight": lambda f: setattr(f, "tied", parameter()),
    "saved buffer": lambda f: setattr(f, "saved", torch.full((8,), 3.0)),
    "unsaved buffer": lambda f: setattr(f, "unsaved", torch.full((8,), 3.0)),
    "class attribute hidden": lambda f: setattr(f, "scale", 5.0),
    "method hidden": lambda f: setattr(f, "finished", torch.sin),
    "attribute with a default": lambda f: setattr(f, "extra", 5.0),
    "tuple": lambda f: setattr(f, "pair", (7.0, 1.0)),
    "list": lambda f: setattr(f, "sizes", [7.0]),
    "list in place": lambda f: f.sizes.__setitem__(0, 7.0),
    "dict in place": lambda f: f.names.update(a=7.0),
    "dict of numbers in place": lambda f: f.levels.update({0: 7.0}),
    "object": lambda f: setattr(f, "config", Config(9.0)),
    "constant": lambda f: setattr(f, "table", torch.zeros(8)),
    "memory of a constant": lambda f: setattr(f.table, "data", torch.zeros(8)),
    "strides of a constant": lambda f: setattr(f.table, "data", f.table.data[:1].expand(8)),
}
NOT_SEEN_LATER = {
    "forward of a layer",
    "class attribute hidden",
    "method hidden",
    "attribute with a default",
    "memory of a constant",
    "strides of a constant",
}
"""What a graph that is compiled already does not guard."""


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape or (4, 8), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def rich(home: Path) -> tuple[Delivery, nn.Module]:
    torch.manual_seed(0)
    m = Rich().eval()
    return delivered(m, (drawn(),), home), m


@pytest.fixture
def pair(rich: tuple[Delivery, nn.Module]) -> tuple[Any, Any]:
    return copy.deepcopy(rich[0].module), copy.deepcopy(rich[1])


def same(fast: Any, m: Any, *args: Any, **kwargs: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(fast(*args, **kwargs), m(*copy.deepcopy(args), **kwargs))


def ran(module: Any) -> tuple[int, int]:
    return module.report().kernel_calls, module.report().original_calls


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_seen_by_the_module_and_by_its_copies(pair: Any, change: Callable[[Any], Any]) -> None:
    fast, m = pair
    same(fast, m, drawn())
    assert ran(fast) == (1, 0)
    change(fast)
    change(m)
    same(fast, m, drawn())
    assert ran(fast) == (1, 1)
    for again in (copy.copy(fast), copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        same(again, m, drawn())
        assert ran(again) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_by_compilers(pair: Any, name: str) -> None:
    fast, m = pair
    torch._dynamo.reset()
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    if name not in NOT_SEEN_LATER:
        same(compiled, m, drawn())
        assert ran(fast) == (1, 0)
    CHANGES[name](fast)
    CHANGES[name](m)
    same(compiled, m, drawn())
    if name != "forward of a layer":  # which torch.export takes for a function of its own
        with torch.no_grad():
            exported = torch.export.export(fast, (drawn(),), strict=False).module()
        same(exported, m, drawn())


def test_a_compiler_sees_a_change_too(pair: Any) -> None:
    fast, m = pair
    torch._dynamo.reset()
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    same(compiled, m, drawn())
    for module in pair:
        module.act = nn.Tanh().eval()
    same(compiled, m, drawn())


def forward_mode(f: Any) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(drawn(), drawn() * 2))).tangent


class Negating(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return -out if func is torch.ops.aten.tanh.default else out


def watched(f: Any) -> Any:
    with torch.no_grad(), Negating():
        return f(drawn())


def gradient_of(name: str) -> Callable[[Any], Any]:
    def found(f: Any) -> Any:
        f.requires_grad_(False)
        held = getattr(f, name).requires_grad_()
        (f(drawn()) ** 2).sum().backward()
        return held.grad

    return found


USES: dict[str, Callable[[Any], Any]] = {
    "forward mode": forward_mode,
    "a mode that watches operators": watched,
    "gradient of a buffer": gradient_of("shift"),
    "gradient of a constant": gradient_of("table"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_use_that_was_not_verified_runs_the_original(pair: Any, use: Callable[[Any], Any]) -> None:
    fast, m = pair
    same(fast, m, drawn())
    torch.testing.assert_close(use(fast), use(m))
    assert ran(fast) == (1, 1)


def test_a_kernel_computes_in_the_types_that_were_verified(rich: tuple[Delivery, nn.Module]) -> None:
    fast: Any = copy.deepcopy(rich[0].module).requires_grad_(False)
    kernel, held = fast._kernelwright_kernel, fast.state_dict()
    weights = [held[name] for name, weight in kernel.contract.weights.items() if weight.same_as is None]
    instance = kernel.make()
    instance.take([held[name] for name in kernel.contract.weights])
    want, x = fast(drawn()), drawn().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(instance.call(drawn()), want)
        torch.testing.assert_close(type(fast)._kernelwright_operators[0](drawn(), *weights), want)
    outs = type(fast)._kernelwright_operators[0](x, *weights).sum(), rich[1](x).sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = (torch.autograd.grad(out, x)[0] for out in outs)
    torch.testing.assert_close(found, expected)


class Alone(nn.Module):
    """Takes no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1.0, 1.0, 64).view(8, 8))

    def forward(self) -> torch.Tensor:
        return torch.tanh(self.weight @ self.weight)


def test_autocast_is_seen_where_a_call_has_no_tensors(home: Path) -> None:
    fast: Any = delivered(Alone().eval(), [()], home).module
    same(fast, Alone())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same(fast, Alone())
    assert ran(fast) == (1, 1)


def test_a_module_that_is_compiled_in_place_keeps_its_kernel(pair: Any) -> None:
    fast, m = pair
    torch._dynamo.reset()
    fast.compile(backend="eager", fullgraph=True)
    fast.act.compile(backend="eager")
    same(fast, m, drawn())
    assert ran(fast) == (1, 0)


class Factors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factors, self.named = [2], {"a": 3}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factors[0] + x * self.named["a"]


@pytest.mark.parametrize("change", [lambda f: f.factors.__setitem__(0, 2.0), lambda f: f.named.update(a=3.0)])
def test_an_equal_number_of_another_type_is_seen_in_place(home: Path, change: Callable[[Any], Any]) -> None:
    m, x = Factors().eval(), torch.arange(32).view(4, 8)
    fast: Any = delivered(m, (x,), home).module
    same(fast, m, x)
    for each in (fast, m):
        change(each)
    same(fast, m, x)
    assert ran(fast) == (1, 1)


def test_a_module_that_nobody_has_any_more_is_freed_at_once(pair: Any) -> None:
    fast = copy.deepcopy(pair[0])
    same(fast, pair[1], drawn())
    gc.collect()
    gc.disable()
    try:
        held = weakref.ref(fast), weakref.ref(fast.shift), weakref.ref(fast.linear)
        del fast
        left = [ref() is not None for ref in held]
    finally:
        gc.enable()
    assert left == [False, False, False]


def test_another_object_or_class_attribute_is_seen_where_a_kernel_is_loaded(
    rich: tuple[Delivery, nn.Module],
) -> None:
    other = copy.deepcopy(rich[1])
    other.config = Config(9.0)  # type: ignore[assignment]
    fast: Any = attach(rich[0].kernel, copy.deepcopy(other))
    same(fast, other, drawn())
    assert ran(fast) == (0, 1) and "config of the module was replaced" in str(fast.report())
    alike = copy.deepcopy(rich[1])
    alike.config = Config(2.0)  # type: ignore[assignment]
    fast = attach(rich[0].kernel, alike)
    same(fast, rich[1], drawn())
    assert ran(fast) == (1, 0)


def test_the_operator_goes_back_through_an_original_that_is_as_verified(
    rich: tuple[Delivery, nn.Module],
) -> None:
    known = rich[0].kernel
    kernel = VerifiedKernel(known.program + "\n#", known.contract)
    wrong = copy.deepcopy(rich[1])
    wrong.sizes[0] = 9.0  # type: ignore[index,operator]
    attach(kernel, wrong)  # the first that this process sees
    fast: Any = attach(kernel, copy.deepcopy(rich[1]))
    held = fast.state_dict()
    weights = [held[name] for name, weight in known.contract.weights.items() if weight.same_as is None]
    ours, theirs = drawn().requires_grad_(), drawn().requires_grad_()
    type(fast)._kernelwright_operators[0](ours, *weights).square().sum().backward()
    rich[1](theirs).square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


# -- modules of special kinds ----------------------------------------------------------------------


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.weight


class Around(Plain):
    """Works around its forward."""

    def __call__(self, x: torch.Tensor) -> Any:
        return super().__call__(x) * 2


class Remade(Plain):
    """Makes its copies and pickles by itself."""

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self)()
        made.load_state_dict(self.state_dict())
        return made.train(self.training)

    def __getstate__(self) -> Any:
        return {"weight": self.weight.detach().clone(), "training": self.training}

    def __setstate__(self, state: Any) -> None:
        self.__init__()  # type: ignore[misc]
        self.weight = nn.Parameter(state["weight"])
        self.train(state["training"])


class Renamed(Plain):
    """Has other names in its state_dict, and something else than tensors."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {f"model_{name}": value for name, value in super().state_dict(*args, **kwargs).items()}

    def get_extra_state(self) -> Any:
        return {"version": 3}


class Counting(Plain):
    """Changes what no state_dict holds."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last: Any = None
        self.log: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.log.append(self.calls)
        self.last = torch.tanh(x)
        return self.last * self.weight


class Joined(nn.Module):
    """Goes by the order of a dict and of its keywords."""

    def forward(self, tensors: Any, **more: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.cat([*tensors.values(), *more.values()], 1))


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * factor


def hooked() -> nn.Module:
    m = Plain()
    m.register_forward_hook(lambda module, args, out: out + 1)
    m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return m


@pytest.mark.parametrize("make", [hooked, Around], ids=["hooks", "__call__"])
def test_what_a_module_does_around_forward_is_done_once(home: Path, make: Callable[[], nn.Module]) -> None:
    m = make().eval()
    fast: Any = delivered(m, (drawn(),), home).module
    same(fast, m, drawn())
    assert ran(fast) == (1, 0)
    x, y = drawn().requires_grad_(), drawn().requires_grad_()
    fast(x).sum().backward()
    m(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_copies_that_a_class_makes_by_itself_have_a_state_of_their_own(home: Path) -> None:
    m = Remade().eval()
    fast: Any = delivered(m, (drawn(),), home).module
    for again in (fast, copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), type(fast)().eval()):
        same(again, m, drawn())
        assert ran(again) == (1, 0)


class Registered(nn.Module):
    """Keeps a registry of its subclasses, each of which has to give a key."""

    known: dict[str, type] = {}  # noqa: RUF012 (all subclasses share it)

    def __init_subclass__(cls, *, key: str) -> None:
        cls.known[key] = cls


class Sigmoid(Registered, key="sigmoid"):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 2


def test_a_registry_of_classes_holds_none_of_ours(home: Path, tmp_path: Path) -> None:
    made, m = delivered(Sigmoid().eval(), (drawn(),), home), Sigmoid().eval()
    again = pickle.loads(pickle.dumps(made.module))
    folder = save(made, tmp_path / "saved", cache_dir=home)
    for fast in (made.module, copy.deepcopy(made.module), again, kernelwright.load(folder)):
        same(fast, m, drawn())
        assert ran(fast) == (1, 0)
    assert Registered.known == {"sigmoid": Sigmoid}


def test_hooks_and_extras_of_a_state_dict_are_the_module_s_own_matter(home: Path) -> None:
    m = Renamed().eval()
    m.register_state_dict_post_hook(lambda module, state, prefix, meta: state.clear())
    fast: Any = delivered(Renamed().eval(), (drawn(),), home).module
    fast.register_state_dict_post_hook(lambda module, state, prefix, meta: state.clear())
    same(fast, m, drawn())
    assert ran(fast) == (1, 0) and fast.state_dict().keys() == m.state_dict().keys()


def test_what_a_call_leaves_behind_is_left_behind(home: Path) -> None:
    m = Counting().eval()
    fast: Any = delivered(m, (drawn(),), home).module
    for _ in range(2):
        same(fast, m, drawn())
    assert fast.calls == m.calls == 2 and fast.log == m.log and torch.equal(fast.last, m.last)
    assert "a call changes calls, last, log, which a kernel does not do" in str(fast.report())


def test_the_order_of_names_counts(home: Path) -> None:
    m, (a, b) = Joined().eval(), (drawn(), drawn() + 1)
    fast: Any = delivered(m, ({"a": a, "b": b},), home, {"c": a, "d": b}).module
    same(fast, m, {"a": a, "b": b}, c=a, d=b)
    assert ran(fast) == (1, 0)
    same(fast, m, {"b": b, "a": a}, c=a, d=b)
    same(fast, m, {"a": a, "b": b}, d=b, c=a)
    assert ran(fast) == (1, 2)


def test_a_single_number_that_negates_is_read_as_what_it_is(home: Path) -> None:
    m = Scaled().eval()
    fast: Any = delivered(m, (drawn(), torch.tensor(2.0)), home).module
    same(fast, m, drawn(), torch.tensor(3 + 4j).conj().imag)
    assert ran(fast) == (0, 1)


@dataclasses.dataclass
class Options:
    x: torch.Tensor
    factor: float = dataclasses.field(default=2.0, init=False)


class Optional(nn.Module):
    def forward(self, options: Options) -> torch.Tensor:
        return torch.tanh(options.x) * options.factor


def test_a_dataclass_that_its_constructor_does_not_make_whole_is_refused(home: Path) -> None:
    with pytest.raises(TaskError, match="holds a Options"):
        delivered(Optional().eval(), (Options(drawn()),), home)


# -- folders ---------------------------------------------------------------------------------------


LOST: dict[str, tuple[Callable[[Any], Any], str]] = {
    "hook": (lambda f: f.register_forward_hook(lambda m, a, out: out + 1), "the module has hooks"),
    "attribute": (lambda f: setattr(f[0], "eps", 3.0), "eps of 0 is 3.0, verified with 1e-05"),
    "layer": (lambda f: f.append(nn.Tanh()), "submodules were added or removed: 3"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("change", "why"), LOST.values(), ids=LOST.keys())
def test_what_a_folder_does_not_keep_is_said(home: Path, tmp_path: Path, change: Any, why: str) -> None:
    shared = nn.LayerNorm(8)
    made = delivered(nn.Sequential(shared, nn.Tanh(), shared).eval(), (drawn(),), home)
    fast: Any = kernelwright.load(save(made, tmp_path / "whole", cache_dir=home))
    same(fast, made.module, drawn())
    assert ran(fast) == (1, 0) and fast[0] is fast[2]
    change(made.module)
    folder = save(made, tmp_path / "changed", cache_dir=home)
    with pytest.raises(UserError, match=rf"{why}; give the original: load\(folder, module\)"):
        kernelwright.load(folder)
    same(kernelwright.load(folder, made.module), made.module, drawn())


# -- descriptions ----------------------------------------------------------------------------------


def test_descriptions_tell_what_objects_hold() -> None:
    factor = 2.0
    values = [
        Config(2.0),
        Config(3.0),
        [torch.ones(2)],
        [torch.zeros(2)],
        lambda x: x * factor,
        lambda x: x + factor,
        {"a": nn.Linear(2, 2)},
        {1.5: {"b", "a"}},
        torch.nn.functional.relu,
        re.compile("a"),
        re.compile("b"),
    ]
    found = [description_of(value) for value in values]
    assert len(set(found)) == len(values) and all(found)
    assert found == [description_of(copy.deepcopy(value)) for value in values]
    circle: list[Any] = []
    circle.append(circle)
    assert description_of(circle) == description_of(copy.deepcopy(circle)) != ""
    assert description_of(value for value in values) == ""


class Link:
    """Refers to what is below it twice."""

    def __init__(self, below: Any) -> None:
        self.one = self.two = below


def chain(length: int) -> Any:
    found: Any = None
    for _ in range(length):
        found = [(Link(found),), {1.5: found}]
    return found


def test_descriptions_are_as_long_as_objects_are_large() -> None:
    long = chain(2000)
    assert description_of(long) != description_of(chain(1999)) != ""
    shared = [1.0]
    assert description_of([shared, shared]) != description_of([[1.0], [1.0]])
    pair, other = (1.0, "a"), tuple([1.0, "a"])  # whose identity means nothing
    assert description_of([pair, pair]) == description_of([pair, other])
    parts = {Link("a"), Link("b")}
    for part in parts:
        part.two = parts
    assert description_of(parts) == description_of(pickle.loads(pickle.dumps(parts))) != ""
    assert description_of([[] for _ in range(MOST)]) == ""
    assert description_of([1.0].append) != description_of([2.0].append)


def test_a_graph_module_is_delivered(home: Path, tmp_path: Path) -> None:
    m = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 8), nn.Sigmoid()).eval())
    made = delivered(m, (drawn(),), home)
    fast: Any = made.module
    same(fast, m, drawn())
    for other in (pickle.loads(pickle.dumps(fast)), copy.deepcopy(fast)):  # torch makes the code anew
        same(other, m, drawn())
    other = kernelwright.load(save(made, tmp_path / "saved", cache_dir=home), m)
    same(other, m, drawn())
    same(fast, m, drawn())
    assert ran(fast) == (2, 0) and ran(other) == (1, 0)
    for module in (fast, m):
        (last,) = (node for node in module.graph.nodes if node.op == "call_module" and node.target == "1")
        last.target = "0"
        module.recompile()
    same(fast, m, drawn())
    assert ran(fast) == (0, 1)


def test_the_code_of_a_class_is_told_apart() -> None:
    def made(factor: float) -> type:
        class Model(nn.Module):
            def forward(self, x: Any, scale: float = factor) -> Any:
                return x * scale

        return Model

    class Model(nn.Module):
        def forward(self, x: Any, scale: float = 2.0) -> Any:
            """Scale."""
            return x * scale  # told in a comment

    assert code_of(made(2.0)) == code_of(made(2.0)) == code_of(Model) != code_of(made(3.0))
    assert code_of(nn.Linear) == ""


class Divided(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a // b + a // 3, a % b + a % 3


def test_an_integer_divided_by_zero_ends_no_process(home: Path) -> None:
    m, a = Divided().eval(), torch.arange(1, 9)
    fast: Any = delivered(m, (a, a), home).module
    same(fast, m, a, a)
    assert ran(fast) == (1, 0)
    for module in (fast, m):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            module(a, a * 0)


class Bank(nn.Module):
    """Writes a buffer, and reads another one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.zeros(8))
        self.register_buffer("other", torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.bank.mul_(0.9).add_(x.mean(0))
        return x * self.other + self.bank


@pytest.mark.parametrize("shared", ["input", "buffer", "nothing"])
def test_memory_that_a_call_writes_is_read_as_the_original_reads_it(shared: str, tmp_path: Path) -> None:
    original, x = Bank(), torch.rand(8, 8)
    module = delivered(original, (x,), tmp_path).module
    results = []
    for each in (module, original):
        given = x.clone()
        if shared == "input":
            each.bank = given[3]
        elif shared == "buffer":
            memory = torch.arange(12.0)
            each.bank, each.other = memory[:8], memory[4:]
        results.append([*(each(given).clone() for _ in range(2)), each.bank.clone()])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want)
    assert module.report().kernel_calls == (2 if shared == "nothing" else 0)


class Norms(nn.Module):
    """Writes the statistics of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.BatchNorm1d(8), nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.tanh(self.one(x)) * 2 + 1)


TIES: dict[str, Callable[[Any], Any]] = {
    "statistics": lambda f: setattr(f.two, "running_mean", f.one.running_mean),
    "counter": lambda f: setattr(f.two, "num_batches_tracked", f.one.num_batches_tracked),
    "layer": lambda f: setattr(f, "two", f.one),
}


@pytest.mark.parametrize("tie", TIES.values(), ids=TIES.keys())
def test_what_a_call_writes_under_two_names_is_written_as_by_the_original(
    tie: Callable[[Any], Any], home: Path
) -> None:
    original, x = Norms().train(), drawn(16, 8)
    fast: Any = delivered(original, (x,), home).module
    same(fast, original, x)
    assert ran(fast) == (1, 0)
    for each in (fast, original):
        tie(each)
    torch._dynamo.reset()
    for call in (fast, fast, torch.compile(fast, backend="eager", fullgraph=True)):
        same(call, original, x)
        torch.testing.assert_close(dict(fast.state_dict()), dict(original.state_dict()))


# -- results that share memory ---------------------------------------------------------------------


class Sharing(nn.Module):
    """Returns inputs, weights, a result twice, and views of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.tied = self.weight
        self.table = torch.full((8,), 2.0)

    def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> Any:
        y = torch.tanh(x) * self.weight
        views = {"x": x[1:, ::2], "y": y.t(), "row": y[2], "wide": y.unsqueeze(0).expand(3, 4, 8)}
        return {"new": y, "again": y, **views}, (x, more["b"], self.tied, self.table, more["b"].view(-1))


def results_of(f: Any, x: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    named, others = f(x, {"b": b})
    return [*named.values(), *others]


def sharing_of(f: Any, x: torch.Tensor, b: torch.Tensor) -> Any:
    """Return who is whom, who lies in whose memory, and what it looks like when each has been written to."""
    outs = results_of(f, x, b)
    everything = [*outs, x, b, f.weight, f.table]
    same = [[one is other for other in everything] for one in outs]
    shared = [[one.data_ptr() == other.data_ptr() for other in everything] for one in outs]
    laid_out = [(type(out), out.stride(), out.storage_offset(), out.requires_grad) for out in outs]
    for number, out in enumerate(outs):
        out.untyped_storage()  # an expanded one cannot be written to at once
        out.reshape(-1)[:1].add_(number) if out.is_contiguous() else out.select(0, 0).add_(number)
    return same, shared, laid_out, [tensor.detach().clone() for tensor in everything]


@pytest.fixture(scope="module")
def sharing(home: Path) -> tuple[Delivery, nn.Module]:
    m = Sharing().eval()
    return delivered(m, (drawn(), {"b": drawn() + 1}), home), m


def test_results_share_memory_as_the_originals_do(sharing: tuple[Delivery, nn.Module]) -> None:
    for again in (copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))):
        fast, m = again(sharing[0].module), copy.deepcopy(sharing[1])
        with torch.no_grad():
            found, expected = (sharing_of(f, drawn(5, 8)[1:], drawn() + 1) for f in (fast, m))
        assert found[:3] == expected[:3]
        torch.testing.assert_close(found[3], expected[3])
        assert ran(fast) == (1, 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_result_is_the_tensor_that_the_original_returns(sharing: Any, backend: str) -> None:
    torch._dynamo.reset()
    fast, m = copy.deepcopy(sharing[0].module), copy.deepcopy(sharing[1])
    found = []
    for f in (fast, m):
        x, b = drawn(), drawn() + 1
        with torch.no_grad():
            outs = results_of(torch.compile(f, backend=backend, fullgraph=True), x, b)
        found.append([[out is tensor for tensor in (*outs, x, b)] for out in (*outs[:2], *outs[6:8])])
    assert found[0] == found[1] and ran(fast) == (1, 0)


def test_a_folder_keeps_which_results_share_memory(sharing: Any, home: Path, tmp_path: Path) -> None:
    again: Any = kernelwright.load(save(sharing[0], tmp_path / "saved", cache_dir=home), sharing[1])
    with torch.no_grad():
        found, expected = (sharing_of(f, drawn(), drawn()) for f in (again, copy.deepcopy(sharing[1])))
    assert found[:3] == expected[:3] and ran(again) == (1, 0)


# -- tensors without memory ------------------------------------------------------------------------


def functional(f: Any) -> Any:
    made = torch._to_functional_tensor(drawn())
    torch._enable_functionalization(reapply_views=True)
    try:
        return torch._from_functional_tensor(f(made))
    finally:
        torch._disable_functionalization()


def of_zeros(f: Any) -> Any:
    return f(torch._efficientzerotensor((4, 8)))


def with_weights_of_zeros(f: Any) -> Any:
    f.weight = nn.Parameter(torch._efficientzerotensor((8,)), requires_grad=False)
    return f(drawn())


@pytest.mark.parametrize("use", [functional, of_zeros, with_weights_of_zeros])
def test_a_tensor_without_memory_ends_no_process(home: Path, use: Callable[[Any], Any]) -> None:
    m = Plain().eval()
    fast: Any = delivered(m, (drawn(),), home).module
    with torch.no_grad():
        torch.testing.assert_close(use(fast), use(copy.deepcopy(m)))
    assert ran(fast) == (0, 1) and "has no memory" in str(fast.report())


def test_a_module_that_was_moved_keeps_nothing_of_where_it_was(home: Path) -> None:
    m = Plain().eval()
    fast: Any = delivered(m, (drawn(),), home).module
    same(fast, m, drawn())
    held = [weakref.ref(parameter) for parameter in fast.parameters()]
    nn.ModuleList([fast]).to("meta")
    gc.collect()
    assert not any(ref() is not None for ref in held)
    fast.to_empty(device="cpu").load_state_dict(m.state_dict())
    same(fast, m, drawn())
    assert ran(fast) == (2, 0)


def test_a_thread_that_is_about_to_call_may_do_so_while_another_moves_the_module(home: Path) -> None:
    m = Plain().eval()
    fast: Any = delivered(m, (drawn(),), home).module
    same(fast, m, drawn())
    call = fast._kernelwright.bound[0]
    fast.to("meta")
    with torch.no_grad():
        torch.testing.assert_close(call(drawn()), m(drawn()))


def test_scripting_is_refused_in_one_line(pair: Any) -> None:
    with pytest.raises(NotImplementedError, match="script the original module, or use"):
        torch.jit.script(nn.Sequential(pair[0]))
