"""A kernel that is loaded in another process meets the classes that it was verified with, or does not run."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered
from torch import nn

import kernelwright
from kernelwright.delivery.runtime.described import code_of
from kernelwright.delivery.saving import save
from kernelwright.tasks import described

pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "module_of_a_user"
X = torch.linspace(-1.0, 1.0, 32).view(4, 8)
TEXT = """
import enum, functools, threading
import torch
from torch import nn


EPS = 0.25


def shifted(x, by=0.5):
    return x + by * EPS


class Kind(enum.Enum):
    ONE = 1.0
    TWO = 2.0


class Holding(nn.Module):
    table, options, more = (1.5, 2.5), {"gain": 2.0}, [{1: {3.0}}]
    act = staticmethod(torch.sigmoid)
    kind = Kind.ONE
    scaled = functools.partial(torch.mul, other=2.0)
    unread = object()

    class Options:
        gain = 2.0
        kinds = {"a": Kind.ONE}

        @staticmethod
        def shift():
            return 1.0

    class Mode(enum.Enum):
        FAST = 3.0

    class Lock:
        lock = {"gain": threading.Lock()}


class Model(Holding):
    def __init__(self):
        super().__init__()
        self.finish = shifted

    def forward(self, x):
        x = self.finish(shifted(x))
        factor = self.table[0] * self.options["gain"] * max(self.more[0][1]) * self.kind.value
        factor = factor * self.Options.gain * self.Options.kinds["a"].value * self.Mode.FAST.value
        return self.scaled(self.act(x)) * factor + self.Options.shift()
"""
CHANGES = {
    "tuple": ("(1.5, 2.5)", "(4.5, 2.5)"),
    "dict": ('{"gain": 2.0}', '{"gain": 3.0}'),
    "nested": ("{3.0}", "{4.0}"),
    "builtin": ("torch.sigmoid", "torch.tanh"),
    "member of an enumeration": ("kind = Kind.ONE", "kind = Kind.TWO"),
    "partial": ("other=2.0", "other=5.0"),
    "options": ("gain = 2.0", "gain = 3.0"),
    "dict of options": ('"a": Kind.ONE', '"a": Kind.TWO'),
    "method of options": ("return 1.0", "return 2.0"),
    "value of an enumeration": ("FAST = 3.0", "FAST = 4.0"),
    "global": ("EPS = 0.25", "EPS = 0.75"),
    "function": ("return x + by * EPS", "return x - by * EPS"),
    "default of a function": ("by=0.5", "by=0.75"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder
    sys.modules.pop(NAME, None)


def model_of(place: Path, text: str) -> Any:
    """Return a model of a module of this text, as another process imports it."""
    path = place / f"{NAME}.py"
    path.write_text(text, encoding="utf-8")
    sys.modules.pop(NAME, None)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
    importlib.invalidate_caches()
    return importlib.import_module(NAME).Model().eval()


@pytest.fixture(scope="module")
def folder(place: Path, home: Path) -> Path:
    return save(delivered(model_of(place, TEXT), (X,), home), place / "saved", cache_dir=home)


def runs_kernel(folder: Path, model: nn.Module) -> bool:
    """Say which ran, with the folder's own module and with a given one; both compute what the model does."""
    modules: list[Any] = [kernelwright.load(folder), kernelwright.load(folder, model)]
    with torch.no_grad():
        for module in modules:
            torch.testing.assert_close(module(X), model(X))
    kinds = {module.report().kernel_calls for module in modules}
    assert len(kinds) == 1
    return kinds == {1}


def test_the_same_class_has_the_kernel(place: Path, folder: Path) -> None:
    assert runs_kernel(folder, model_of(place, TEXT))
    assert runs_kernel(folder, model_of(place, TEXT.replace("unread = object()", "unread = 5")))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_another_value_of_a_class_attribute_runs_the_original(
    change: tuple[str, str], place: Path, folder: Path
) -> None:
    assert TEXT.count(change[0]) == 1
    assert not runs_kernel(folder, model_of(place, TEXT.replace(*change)))


def test_what_nobody_can_describe_is_known_in_one_process_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TEXT.replace("return self.scaled", "self.Lock.lock\n        return self.scaled")
    found = [code_of(type(model_of(place, text))) for _ in range(2)]
    monkeypatch.setattr(described, "UNKNOWABLE", "of another process")
    other = code_of(type(model_of(place, text)))
    assert found[0] == found[1] != other
    assert code_of(type(model_of(place, TEXT))) == code_of(type(model_of(place, TEXT)))


def factory(factor: float) -> type[nn.Module]:
    class Act(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) * factor

    return Act


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = factory(2.0)()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x) + EPS


EPS = 0.5


def test_a_class_with_another_closure_is_another(home: Path) -> None:
    m = Around().eval()
    fast: Any = delivered(m, (X,), home).module
    for factor in (2.0, 3.0):
        m.act = factory(factor)().eval()
        fast.act = factory(factor)().eval()
        with torch.no_grad():
            torch.testing.assert_close(fast(X), m(X))
    assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 1)


def test_a_global_that_was_set_is_seen_where_a_folder_is_loaded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = Around().eval()
    saved = save(delivered(m, (X,), home), tmp_path / "saved", cache_dir=home)
    monkeypatch.setitem(globals(), "EPS", 0.25)
    for set_again, calls in ((False, (0, 1)), (True, (1, 0))):
        if set_again:
            monkeypatch.undo()
        fast: Any = kernelwright.load(saved, m)
        with torch.no_grad():
            torch.testing.assert_close(fast(X), m(X))
        assert (fast.report().kernel_calls, fast.report().original_calls) == calls
