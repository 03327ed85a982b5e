"""What is put in the place of something that was verified, behind the module's back, is what a call reads."""

import copy
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered
from torch import nn

import kernelwright
from kernelwright.core.errors import UserError
from kernelwright.delivery.making import Delivery
from kernelwright.delivery.runtime import attach
from kernelwright.delivery.saving import save

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.linspace(-1.0, 1.0, 32).view(4, 8)


def same(fast: Any, m: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(fast(X), m(X))


def ran(module: Any) -> tuple[int, int]:
    return module.report().kernel_calls, module.report().original_calls


class Block(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8) * factor)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.weight * self.scale


class Model(nn.Module):
    """Reads a class attribute, a method, submodules twice."""

    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = Block(), nn.Sigmoid()
        self.again = self.first
        self.register_buffer("shift", torch.ones(8))

    def finished(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.finished(self.act(self.again(self.first(x))) + self.shift) * self.factor


@pytest.fixture(scope="module")
def made(home: Path) -> Delivery:
    return delivered(Model().eval(), (X,), home)


@pytest.fixture
def pair(made: Delivery) -> tuple[Any, Any]:
    fast, m = copy.deepcopy(made.module), Model().eval()
    same(fast, m)
    assert ran(fast) == (1, 0)
    return fast, m


# -- the dicts of a module -------------------------------------------------------------------------


def other() -> Model:
    model = Model().eval()
    with torch.no_grad():
        model.first.weight.mul_(3)
        model.shift.mul_(5)  # type: ignore[operator]
    return model


def hook_in_new_dict(name: str, register: Callable[[nn.Module], Any]) -> Callable[[Any], None]:
    def change(f: Any) -> None:
        setattr(f.act, name, OrderedDict())
        register(f.act)

    return change


def held_anew(path: str, name: str) -> Callable[[Any], Any]:
    return lambda f: setattr(f.get_submodule(path), name, dict(vars(other().get_submodule(path))[name]))


DICTS: dict[str, Callable[[Any], Any]] = {
    "forward hooks": hook_in_new_dict(
        "_forward_hooks", lambda m: m.register_forward_hook(lambda module, args, out: out * 0)
    ),
    "hooks before forward": hook_in_new_dict(
        "_forward_pre_hooks", lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    ),
    "parameters": held_anew("first", "_parameters"),
    "buffers": held_anew("", "_buffers"),
    "submodules": held_anew("", "_modules"),
    "everything of the module": lambda f: vars(f).update(vars(other())),
    "everything of a submodule": lambda f: setattr(f.first, "__dict__", vars(other().first)),
    "the dict of a submodule": lambda f: setattr(f.first, "__dict__", {**vars(f.first), "scale": 7.0}),
    "the module's own dict": lambda f: setattr(f, "__dict__", {**vars(f), "factor": 7.0}),
}


@pytest.mark.parametrize("change", DICTS.values(), ids=DICTS.keys())
def test_a_dict_that_took_another_s_place_is_the_one_that_counts(pair: Any, change: Any) -> None:
    fast, m = pair
    before = fast(X)
    for module in pair:
        change(module)
    for each in (fast, copy.copy(fast), copy.deepcopy(fast)):
        for _ in range(2):
            same(each, m)
    assert not torch.equal(before, fast(X))


# -- the class of the module -----------------------------------------------------------------------


def derived(kind: type, name: str, **members: Any) -> type:
    return type(name, (kind,), members)


DERIVED: dict[str, Callable[[type], type]] = {
    "attribute": lambda kind: derived(kind, "Mine", factor=5.0),
    "method": lambda kind: derived(kind, "Mine", finished=lambda self, x: x - 1),
    "attribute, under the same name": lambda kind: derived(kind, "Model", factor=5.0),
    "method, under the same name": lambda kind: derived(kind, "Model", finished=lambda self, x: x - 1),
}


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED.keys())
def test_a_class_derived_from_the_delivered_one_is_another(made: Any, derive: Any, is_early: bool) -> None:
    fast, m = copy.deepcopy(made.module), Model().eval()
    if is_early:
        same(fast, m)
    for module in (fast, m):
        module.__class__ = derive(type(module))
    same(fast, m)
    same(fast, m)
    assert ran(fast) == (int(is_early), 2)
    with kernelwright.strict(), pytest.raises(kernelwright.NotVerifiedError):
        fast(X)
    torch._dynamo.reset()
    same(torch.compile(fast, backend="eager", fullgraph=True), m)
    with pytest.raises(TypeError, match="derived from a delivered one"):
        attach(made.kernel, fast)
    with pytest.raises(UserError, match="derived from a delivered one"):
        kernelwright.optimize(fast, (X,))  # before anything is searched


def test_a_class_that_a_compiler_has_seen_may_become_another(pair: Any) -> None:
    fast, m = pair
    torch._dynamo.reset()
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    same(compiled, m)
    for module in pair:
        module.__class__ = DERIVED["attribute"](type(module))
    same(compiled, m)


def test_a_folder_takes_no_module_of_a_derived_class(made: Delivery, home: Path) -> None:
    folder, fast = save(made, home / "derived", cache_dir=home), copy.deepcopy(made.module)
    fast.__class__ = DERIVED["attribute, under the same name"](type(fast))
    with pytest.raises(UserError, match="derived from a delivered one"):
        kernelwright.load(folder, fast)


# -- what attributes refer to ----------------------------------------------------------------------


class Referring(nn.Module):
    """Reads what it holds through attributes of other kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.weight = Block(), nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.other = nn.Parameter(torch.ones(8))
        self.stages, self.tables = [self.layer], deque([self.weight])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(self.stages[0](x)) * self.other
        return x * self.tables[0] * self.weight


@pytest.fixture(scope="module")
def referring(home: Path) -> Delivery:
    return delivered(Referring().eval(), (X,), home)


def layer_after_a_change(f: Any) -> None:
    f.layer.scale = 5.0
    new = Block().eval()
    new.weight = f.layer.weight
    f.layer = new


def called_with(f: Any, x: torch.Tensor) -> Any:
    return torch.func.functional_call(f, {"weight": torch.full((8,), 3.0)}, (x,))


REFERRED: dict[str, Callable[[Any], Any]] = {
    "submodule": lambda f: setattr(f, "layer", Block(3.0).eval()),
    "submodule that had changed": layer_after_a_change,
    "weight": lambda f: setattr(f, "weight", nn.Parameter(torch.full((8,), 3.0))),
    "weight in place": lambda f: f.weight.data.mul_(3),
    "weight in the place of another": lambda f: setattr(f, "weight", f.other),
    "assigned weights": lambda f: f.load_state_dict(
        {name: tensor * 3 for name, tensor in f.state_dict().items()}, assign=True
    ),
}


@pytest.mark.parametrize("change", REFERRED.values(), ids=REFERRED.keys())
def test_an_attribute_that_refers_to_what_was_replaced_is_looked_at_anew(referring: Any, change: Any) -> None:
    fast, m = copy.deepcopy(referring.module), Referring().eval()
    torch._dynamo.reset()
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    same(fast, m)
    same(compiled, m)
    assert ran(fast)[1] == 0
    for module in (fast, m):
        change(module)
    for each in (fast, copy.deepcopy(fast), compiled):
        for _ in range(2):
            same(each, m)


def test_an_attribute_that_refers_to_a_weight_goes_on_to_where_a_call_has_another(referring: Any) -> None:
    fast, m = copy.deepcopy(referring.module), Referring().eval()
    same(fast, m)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(called_with(fast, X), called_with(m, X))
        same(fast, m)
    assert ran(fast) == (3, 2)


# -- what nobody sees in each call -----------------------------------------------------------------


class Config:
    def __init__(self) -> None:
        self.factor = 2.0


class Configured(nn.Module):
    """Reads what an object and a list hold, and attributes whose names are made at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.config, self.tables, self.linear = Config(), [torch.ones(8)], nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(2):
            x = x * getattr(self, f"alpha_{number}", 1.0)
        return torch.tanh(self.linear(x)) * self.config.factor * self.tables[0]


@pytest.fixture
def configured(home: Path, configured_once: Any) -> tuple[Any, Any]:
    made, m = configured_once
    return copy.deepcopy(made.module), copy.deepcopy(m)


@pytest.fixture(scope="module")
def configured_once(home: Path) -> tuple[Delivery, nn.Module]:
    m = Configured().eval()
    return delivered(m, (X,), home), m


def test_objects_in_attributes_cost_no_look_at_the_whole_module(configured: Any) -> None:
    fast, m = configured
    same(fast, m)
    state = vars(fast)["_kernelwright"]
    state.bind = None  # the generated checks alone decide
    same(fast, m)
    assert ran(fast) == (2, 0)


def set_factor(f: Any) -> None:
    f.config.factor = 9.0


def write_table(f: Any) -> None:
    f.tables[0].fill_(5.0)


def new_table(f: Any) -> None:
    f.tables[0] = torch.full((8,), 5.0)


@pytest.mark.parametrize("change", [set_factor, write_table, new_table])
def test_a_change_inside_an_object_is_seen_when_the_module_is_looked_at_anew(
    configured: Any, change: Any
) -> None:
    for look in (copy.deepcopy, copy.copy, lambda f: f.train().eval(), lambda f: f.double().float()):
        fast, m = copy.deepcopy(configured)
        same(fast, m)
        for module in (fast, m):
            change(module)
        again = look(fast)
        same(again, m)
        assert ran(again)[1] == 1


def test_a_write_into_a_tensor_inside_an_attribute_is_seen_at_once(configured: Any) -> None:
    fast, m = configured
    same(fast, m)
    for module in (fast, m):
        write_table(module)
    same(fast, m)
    assert ran(fast) == (1, 1) and "tables of the module was replaced or changed" in str(fast.report())


def test_an_attribute_of_a_name_that_code_makes_is_seen(configured: Any) -> None:
    fast, m = configured
    same(fast, m)
    for module in (fast, m):
        module.alpha_1 = 3.0
    same(fast, m)
    assert ran(fast) == (1, 1)


def test_an_attribute_that_hides_a_weight_is_seen(configured: Any) -> None:
    fast, m = configured
    same(fast, m)
    for module in (fast, m):
        vars(module.linear)["weight"] = torch.zeros(8, 8)
    same(fast, m)
    assert ran(fast) == (1, 1) and "an attribute hides weight of linear" in str(fast.report())
