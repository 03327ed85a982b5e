"""What a module holds, what becomes of it, and how it is copied: kernel, original and every copy agree."""

import contextlib
import copy
import functools
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.delivery.delivering import delivered
from torch import nn

import kernelwright
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.task import Task
from kernelwright.delivery.making import Delivery, deliver
from kernelwright.delivery.saving import save

pytestmark = pytest.mark.filterwarnings("ignore")
HEAD = "import torch\nfrom torch import nn\n"
FILE = (
    HEAD
    + """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8), requires_grad=False)
        {held}

    def forward(self, x):
        return torch.tanh(x) * {read} * self.weight
"""
)
GIVEN = """
def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""
HELD = {
    "attribute": ("self.table = torch.rand(8)", "self.table"),
    "unsaved buffer": ("self.register_buffer('table', torch.rand(8), persistent=False)", "self.table"),
    "saved buffer": ("self.register_buffer('table', torch.rand(8))", "self.table"),
    "number": ("self.factor = torch.rand(()).item()", "self.factor"),
    "list": ("self.tables = [torch.rand(8)]", "self.tables[0]"),
    "weight in a list": ("self.tables = [self.weight]", "self.tables[0]"),
    "frozen buffer of integers": ("self.register_buffer('table', torch.randint(9, (8,)))", "self.table"),
}


def x() -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 32).view(4, 8)


def of_file(held: str, kernel: str | None = None, read: str | None = None) -> Delivery:
    own, said = HELD[held]
    task = Task(
        name=f"held_{abs(hash((held, kernel)))}",
        source=FILE.format(name="Model", held=own, read=said) + GIVEN,
    )
    source = FILE.format(name="ModelNew", held=kernel or own, read=read or said)
    return deliver(Candidate(source=source), task)


def original_of(module: Any) -> Callable[..., torch.Tensor]:
    return functools.partial(type(module)._kernelwright_original.forward, module)


def through_folder(made: Delivery, home: Path) -> nn.Module:
    folder = save(made, home / "saved", cache_dir=home)
    torch.manual_seed(5)
    return kernelwright.load(folder)


WAYS: dict[str, Callable[[Delivery, Path], Any]] = {
    "itself": lambda made, home: made.module,
    "copy": lambda made, home: copy.deepcopy(made.module),
    "shallow copy": lambda made, home: copy.copy(made.module),
    "pickle": lambda made, home: pickle.loads(pickle.dumps(made.module)),
    "folder": through_folder,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("held", HELD)
def test_what_a_file_draws_is_the_same_everywhere(held: str, way: str, home: Path) -> None:
    torch.manual_seed(hash((held, way)) % 1000)
    made = of_file(held)
    again = WAYS[way](made, home)
    with torch.no_grad():
        want = original_of(made.module)(x())
        torch.testing.assert_close(again(x()), want)
        torch.testing.assert_close(original_of(again)(x()), want)
    assert again.report().kernel_calls == 1, again.report()


def test_what_a_kernel_makes_of_its_draws_is_kept(home: Path) -> None:
    made = of_file(
        "attribute", "self.twice = (torch.rand(8) * 2).view(2, 4).t()", "(self.twice.t().reshape(8) / 2)"
    )
    folder = save(made, home / "saved", cache_dir=home)
    assert (folder / "constants.safetensors").is_file()
    for again in (made.module, kernelwright.load(folder), pickle.loads(pickle.dumps(made.module))):
        with torch.no_grad():
            torch.testing.assert_close(again(x()), original_of(made.module)(x()))


def test_draws_of_another_machine_are_replaced_by_those_that_were_saved(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = of_file("attribute")
    folder = save(made, home / "saved", cache_dir=home)
    seed = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda number: seed(number + 1))
    for name in [name for name in sys.modules if name.startswith("kernelwright_kernel_")]:
        monkeypatch.delitem(sys.modules, name)
    again: Any = kernelwright.load(folder)
    with torch.no_grad():
        torch.testing.assert_close(again(x()), original_of(made.module)(x()))
    assert again.report().kernel_calls == 1


def _with_other_draws(init: Callable[[Any], None]) -> Callable[[Any], None]:
    def other(self: Any) -> None:
        torch.rand(3)
        init(self)

    return other


def test_tensors_that_cannot_come_back_are_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_file("list")
    folder = save(made, home / "saved", cache_dir=home)
    original = type(made.module).__mro__[1]
    monkeypatch.setattr(original, "__init__", _with_other_draws(original.__init__))
    with pytest.raises(
        UserError, match=r"the tensors in tables cannot come back as they were saved; give the"
    ):
        kernelwright.load(folder)


# -- changes, then copies ---------------------------------------------------------------------------


class Held(nn.Module):
    """Everything that a folder keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.tied = self.weight
        self.still = nn.Parameter(torch.ones(8), requires_grad=False)
        self.register_buffer("saved", torch.ones(8))
        self.register_buffer("unsaved", torch.ones(8), persistent=False)
        self.register_buffer("cache", None, persistent=False)
        self.table = torch.full((8,), 2.0)
        self.pair, self.kinds, self.levels = ([2.0], 3.0), {2}, {0: 1.0, None: {1, "a"}}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.levels[0]
        held = self.weight * self.tied * self.still * self.saved * self.unsaved * self.table
        return torch.tanh(x.to(self.weight.dtype)) * held * self.pair[0][0] * next(iter(self.kinds))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "double": lambda f: f.double(),
    "half": lambda f: f.half(),
    "bfloat16": lambda f: f.bfloat16(),
    "frozen": lambda f: f.requires_grad_(False),
    "thawed": lambda f: f.still.requires_grad_(),
    "trained": lambda f: f.weight.data.mul_(3),
    "loaded": lambda f: f.load_state_dict({n: t * 2 for n, t in f.state_dict().items()}),
    "assigned": lambda f: f.load_state_dict({n: t * 2 for n, t in f.state_dict().items()}, assign=True),
    "new weight": lambda f: setattr(f, "still", nn.Parameter(torch.full((8,), 4.0))),
    "new buffer": lambda f: setattr(f, "saved", torch.full((8,), 4.0)),
    "new unsaved buffer": lambda f: setattr(f, "unsaved", torch.full((8,), 4.0)),
    "new constant": lambda f: setattr(f, "table", torch.full((8,), 4.0)),
    "constant in place": lambda f: f.table.mul_(3),
    "gradient of a constant": lambda f: f.table.requires_grad_(),
    "expanded buffer": lambda f: setattr(f, "saved", torch.full((4, 8), 4.0)),
}


def facts_of(module: nn.Module) -> dict[str, Any]:
    held = {**dict(module.named_parameters()), **dict(module.named_buffers()), "table": module.table}
    return {name: (tensor.dtype, tensor.requires_grad, tensor.shape) for name, tensor in held.items()}


@functools.cache
def made_of(kind: type[nn.Module], home: Path) -> Delivery:
    torch.manual_seed(0)
    return delivered(kind().eval(), (x(),), home)


@settings(max_examples=40)
@given(
    changes=st.lists(st.sampled_from(list(CHANGES)), max_size=3),
    way=st.sampled_from(list(WAYS)),
    is_early=st.booleans(),
)
def test_changes_and_copies_mean_what_they_mean_for_the_original(
    home: Path, changes: list[str], way: str, is_early: bool
) -> None:
    assume(way != "folder" or "assigned" not in changes)  # which unties weights, and no folder keeps that
    made = made_of(Held, home)
    made = Delivery(made.kernel, copy.deepcopy(made.module), made.candidate, made.task)
    m = Held().eval()
    with torch.no_grad():
        if is_early:  # the guards have seen it
            made.module(x())
        for change in changes:
            CHANGES[change](made.module)
            CHANGES[change](m)
        again = WAYS[way](made, home)
        torch.testing.assert_close(again(x()), m(x()))
        torch.testing.assert_close(again(x()), m(x()))
    assert facts_of(again) == facts_of(m)
    torch.testing.assert_close(again(x()), m(x()))
    again.cache = m.cache = torch.ones(8)
    assert again.state_dict().keys() == m.state_dict().keys()


# -- attributes -------------------------------------------------------------------------------------


class Attributes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair, self.kinds = ([2.0], {"a": (3.0, [1.0])}), {2}
        self.levels: dict[Any, Any] = {0: 2.0, 1.5: [3.0], None: 1, (1, "a"): 1.0}
        self.marks: set[Any] = {1, "a", None}
        self.inner = nn.Identity()

    def forward(self, x: torch.Tensor, options: list[float] = [1.0]) -> torch.Tensor:  # noqa: B006
        x = self.inner(x) * getattr(self, "extra", 1) * options[0]
        x = x * self.levels[0] * self.levels[1.5][0] * self.levels[1, "a"] * (3 if "a" in self.marks else 1)
        return x * self.pair[0][0] * self.pair[1]["a"][1][0] * next(iter(self.kinds))


def exchanged(f: Any) -> None:
    del f.note
    f.extra = 5


UNSEEN: dict[str, Callable[[Any], Any]] = {
    "list in a tuple": lambda f: f.pair[0].__setitem__(0, 7.0),
    "list in a tuple in a dict in a tuple": lambda f: f.pair[1]["a"][1].__setitem__(0, 7.0),
    "number of another type": lambda f: f.pair[0].__setitem__(0, 2),
    "member of a set": lambda f: (f.kinds.clear(), f.kinds.add(3)),
    "type of a member of a set": lambda f: (f.kinds.clear(), f.kinds.add(2.0)),
    "one attribute for another": exchanged,
    "number under a number": lambda f: f.levels.update({0: 7.0}),
    "list under a number": lambda f: f.levels[1.5].__setitem__(0, 7.0),
    "number under a tuple": lambda f: f.levels.update({(1, "a"): 7.0}),
    "number under a number of another type": lambda f: (f.levels.pop(0), f.levels.update({False: 2.0})),
    "member of a set of several kinds": lambda f: f.marks.remove("a"),
}


@pytest.mark.parametrize("change", UNSEEN.values(), ids=UNSEEN.keys())
def test_a_change_inside_an_attribute_is_seen(home: Path, change: Callable[[Any], Any]) -> None:
    fast, m = copy.deepcopy(made_of(Attributes, home).module), Attributes().eval()
    fast.note = m.note = 1
    for _ in range(2):
        torch.testing.assert_close(fast(x()), m(x()))
    assert fast.report().kernel_calls == 2
    change(fast)
    change(m)
    for again in (fast, copy.deepcopy(fast)):
        torch.testing.assert_close(again(x()), m(x()))
        assert again.report().original_calls == 1


def test_a_default_that_was_changed_in_place_is_seen(home: Path) -> None:
    fast, options = copy.deepcopy(made_of(Attributes, home).module), Attributes.forward.__defaults__[0]
    want = fast(x())
    torch.testing.assert_close(fast(x(), [1.0]), want)
    assert fast.report().kernel_calls == 2
    options[0] = 5.0
    try:
        torch.testing.assert_close(fast(x()), want * 5)
        torch.testing.assert_close(fast(x(), [5.0]), want * 5)
        torch.testing.assert_close(fast(x(), [1.0]), want)
    finally:
        options[0] = 1.0
    assert (fast.report().kernel_calls, fast.report().original_calls) == (3, 2)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.inner = kind(8, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.inner(x)[0])


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_recurrent_module_inside_keeps_its_kernel(home: Path, kind: type[nn.Module]) -> None:
    x, m = torch.randn(2, 3, 8), Recurrent(kind).eval()
    source = HEAD + (
        "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.inner = nn.{kind.__name__}(8, 8, batch_first=True)\n"
        "    @torch.no_grad()\n    def forward(self, x):\n        return torch.tanh(self.inner(x)[0])\n"
    )
    made = delivered(m, (x,), home, source=source)
    made.module.load_state_dict({name: tensor * 2 for name, tensor in m.state_dict().items()})
    m.load_state_dict(made.module.state_dict())
    for way in WAYS.values():
        again = way(made, home)
        for scale in (1, 3):
            with torch.no_grad():
                again.inner.weight_hh_l0.fill_(0.1 * scale)
                m.inner.weight_hh_l0.fill_(0.1 * scale)
                torch.testing.assert_close(again(x), m(x))
        assert again.report().kernel_calls == 2, again.report()
        torch.testing.assert_close(original_of(again)(x), m(x))


# -- gradients, versions, effects -------------------------------------------------------------------


class Listed(nn.Module):
    """Holds a tensor where no state_dict finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = [torch.full((8,), 2.0, requires_grad=True)]
        self.layers = {"one": [nn.Linear(8, 8)]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layers["one"][0](x)) * self.tables[0]


def test_gradients_of_tensors_inside_attributes_are_the_original_s(home: Path) -> None:
    fast = copy.deepcopy(made_of(Listed, home).module)
    with torch.no_grad():
        fast(x())
    assert fast.report().kernel_calls == 1
    for tensor in (fast.tables[0], fast.layers["one"][0].weight):
        (gradient,) = torch.autograd.grad(fast(x()).sum(), tensor)
        torch.testing.assert_close(gradient, torch.autograd.grad(original_of(fast)(x()).sum(), tensor)[0])
    torch._dynamo.reset()
    assert torch.compile(fast, backend="eager")(x()).requires_grad
    fast.tables[0].requires_grad_(False)
    fast.layers["one"][0].requires_grad_(False)
    assert not fast(x()).requires_grad and fast.report().kernel_calls == 2


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8), requires_grad=False)
        self.table = torch.ones(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.weight * self.table


PREPARING = HEAD + (
    "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.weight, self.table, self.ready = nn.Parameter(torch.ones(8)), torch.ones(8), None\n"
    "    def forward(self, x):\n        if self.ready is None:\n            self.ready = self.weight * 1\n"
    "        return torch.tanh(x) * self.ready * self.table\n"
)


@pytest.mark.parametrize("name", ["weight", "table"])
def test_writes_that_torch_does_not_count_are_followed(home: Path, name: str) -> None:
    fast: Any = delivered(Scaled().eval(), (x(),), home, source=PREPARING, is_frozen=True).module
    with torch.inference_mode():
        fast.load_state_dict({"weight": torch.ones(8)}, assign=True)
        fast.table = torch.ones(8)
        for _ in range(2):
            getattr(fast, name).mul_(3)
            torch.testing.assert_close(fast(x()), original_of(fast)(x()))


class Averaging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average = 0.9 * self.average + x.mean(0)
        return torch.tanh(x) + self.average


def test_a_buffer_that_a_call_replaces_is_not_written(home: Path) -> None:
    fast: Any = copy.deepcopy(made_of(Averaging, home).module)
    before = fast.average
    with torch.no_grad():
        fast(x())
    assert torch.equal(before, torch.zeros(8)) and fast.average is not before
    assert "a call changes average" in str(fast.report())


class Drawing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        return torch.tanh(x)


def test_random_numbers_that_a_call_draws_are_drawn(home: Path) -> None:
    source = HEAD + "class ModelNew(nn.Module):\n    def forward(self, x):\n        return torch.tanh(x)\n"
    fast: Any = delivered(Drawing().eval(), (x(),), home, source=source).module
    torch.manual_seed(0)
    fast(x())
    found = torch.rand(3)
    torch.manual_seed(0)
    Drawing()(x())
    assert torch.equal(found, torch.rand(3))
    assert "a call changes the state of random generators" in str(fast.report())


LOG: list[int] = []
KNOWN: dict[str, float] = {}
n_calls = 0


class Logging(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        LOG.append(len(x))
        return torch.tanh(x)


class CountingCalls(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _count()
        return torch.tanh(x)


def _count() -> None:
    global n_calls
    n_calls += 1


class CountingInClass(nn.Module):
    n_seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        CountingInClass.n_seen += 1
        return torch.tanh(x)


class Caching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * KNOWN.setdefault("scale", 2.0)


@pytest.mark.parametrize("kind", [Logging, CountingCalls, CountingInClass])
def test_what_a_call_changes_outside_the_module_is_changed(kind: type[nn.Module], home: Path) -> None:
    source = HEAD + "class ModelNew(nn.Module):\n    def forward(self, x):\n        return torch.tanh(x)\n"
    fast: Any = delivered(kind().eval(), (x(),), home, source=source).module

    def noted() -> tuple[int, int, int]:
        return len(LOG), n_calls, CountingInClass.n_seen

    before = noted()
    fast(x())
    assert sum(noted()) == sum(before) + 1
    assert "which a kernel does not do" in str(fast.report())


def test_a_cache_that_the_first_call_fills_is_no_change(home: Path) -> None:
    source = (
        HEAD + "class ModelNew(nn.Module):\n    def forward(self, x):\n        return torch.tanh(x) * 2\n"
    )
    KNOWN.clear()
    fast: Any = delivered(Caching().eval(), (x(),), home, source=source).module
    with torch.no_grad():
        fast(x())
    assert fast.report().kernel_calls == 1


# -- processes --------------------------------------------------------------------------------------

LOADED = """
import sys, torch
from tests.delivery.test_held_state import original_of, x
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    module = torch.load("module.pt", weights_only=False)
with torch.no_grad():
    torch.testing.assert_close(module(x()), torch.load("expected.pt"))
print(type(module).__name__, len(seen), *(str(one.message) for one in seen))
"""


def test_a_pickle_gives_the_original_where_no_kernel_can_be_made(home: Path, tmp_path: Path) -> None:
    made = made_of(Held, home)
    torch.save(made.module, tmp_path / "module.pt")
    with torch.no_grad():
        torch.save(made.module(x()), tmp_path / "expected.pt")
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOADED],
        cwd=tmp_path,
        env={"PATH": "/nonexistent", "HOME": "/nonexistent", "PYTHONPATH": f"{root}:{root / 'src'}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Held 1 the kernel of this Held cannot be loaded: no C++ compiler"), (
        done.stdout
    )
    assert done.stdout.count("\n") == 1 and "The original module is what comes back" in done.stdout


def test_two_runtimes_in_one_process_share_what_belongs_to_the_process(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_of(Held, home)
    folder = save(made, tmp_path / "shipped_with_runtime", cache_dir=home)
    monkeypatch.syspath_prepend(str(tmp_path))
    shipped: Any = __import__("shipped_with_runtime")
    modules = [made.module, kernelwright.load(folder), shipped.load(), shipped.load(made.module)]
    want = original_of(made.module)(x())
    torch._dynamo.reset()
    for module in modules:
        with torch.no_grad():
            torch.testing.assert_close(module(x()), want)
            for own in (kernelwright, shipped):
                with own.strict(), pytest.raises(kernelwright.NotVerifiedError):
                    module(x()[:2])
            for whole in (module, *modules):
                before = whole.report().kernel_calls
                compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
                torch.testing.assert_close(compiled(x()), want)
                assert whole.report().kernel_calls == before + 1
        torch.testing.assert_close(module(x()), want)
        assert isinstance(copy.deepcopy(module), Held)
        assert shipped.report(module).kernel_calls == kernelwright.report(module).kernel_calls


@pytest.mark.parametrize("is_own", [True, False])
def test_strict_mode_raises_in_compiled_graphs(home: Path, is_own: bool) -> None:
    fast = copy.deepcopy(made_of(Held, home).module)
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(fast, backend="eager")
        want = compiled(x())
        torch.testing.assert_close(compiled(x()[:2]), want[:2])
        with contextlib.ExitStack() as stack:
            if is_own:
                fast._kernelwright.counts.strict = True
            else:
                stack.enter_context(kernelwright.strict())
            torch.testing.assert_close(compiled(x()), want)
            with pytest.raises(kernelwright.NotVerifiedError):
                compiled(x()[:2])
            with pytest.raises(Exception, match="original would run"):
                torch.compile(fast, backend="eager", fullgraph=True)(x()[:2])
            with pytest.raises(kernelwright.NotVerifiedError):
                torch.export.export(fast, (x()[:2],), strict=False)
        fast._kernelwright.counts.strict = False
        torch.testing.assert_close(compiled(x()[:2]), want[:2])


def test_advice_does_not_end_a_program_in_which_warnings_are_errors(home: Path, caplog: Any) -> None:
    fast = copy.deepcopy(made_of(Held, home).module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert fast(x()).requires_grad
        again = pickle.loads(pickle.dumps(copy.deepcopy(fast)))
        with torch.no_grad():
            torch.testing.assert_close(again(x()), fast(x()))
            torch.export.export(fast, (x(),))
    assert [record.levelname for record in caplog.records if "gradients are" in record.message] == ["WARNING"]
