"""Two modules are alike only where their code and everything that it reads are, in every process."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.tasks.classes import globals_read, makes_names
from kernelwright.tasks.described import code_of, description_of, forget_classes
from kernelwright.tasks.likeness import likeness

X = torch.ones(4, 8)
HELPERS = """
SHIFT = 1.0

def shifted(x):
    return x + SHIFT

def other(x):
    return shifted(x) if x.ndim else even(x)

def even(x):
    return other(x)
"""
LATE = """
TURN = 1.0

def late(x):
    return x * TURN
"""
TEXT = """
import torch
from torch import nn
import helpers_of_a_user as helpers

EPS, TABLE, KINDS, COUNT, UNREAD = 0.5, torch.ones(8), {"b", "a", "c"}, 0, 1.0


def scaled(x, factor=2.0):
    return x * factor


class Options:
    gain = 2.0


def times(k):
    return lambda x: x * k


class Model(nn.Module):
    width = 8

    def __init__(self, act=None):
        super().__init__()
        self.linear, self.act = nn.Linear(8, 8), act or times(2.0)

    def forward(self, x):
        global COUNT
        COUNT += 1
        from late_of_a_user import late

        x = late(scaled(self.act(self.linear(x)))) * EPS + TABLE * Options.gain + len(KINDS)
        return helpers.other(x) + self.width
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("user")
    (folder / "helpers_of_a_user.py").write_text(HELPERS, encoding="utf-8")
    (folder / "late_of_a_user.py").write_text(LATE, encoding="utf-8")
    (folder / "text_of_a_user.py").write_text(TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder
    for name in ("helpers_of_a_user", "late_of_a_user", "text_of_a_user"):
        sys.modules.pop(name, None)


@pytest.fixture
def user(place: Path) -> Any:
    return importlib.import_module("text_of_a_user")


def alike(module: nn.Module) -> str | None:
    forget_classes()
    return likeness(module, [((X,), {})])


SET: dict[str, Callable[[pytest.MonkeyPatch, Any], None]] = {
    "number": lambda patch, user: patch.setattr(user, "EPS", 0.25),
    "tensor": lambda patch, user: patch.setattr(user, "TABLE", torch.zeros(8)),
    "set": lambda patch, user: patch.setattr(user, "KINDS", {"a", "b"}),
    "function": lambda patch, user: patch.setattr(user, "scaled", lambda x, factor=2.0: x + factor),
    "default": lambda patch, user: patch.setattr(user.scaled, "__defaults__", (3.0,)),
    "attribute of a class": lambda patch, user: patch.setattr(user.Options, "gain", 3.0),
    "attribute of its class": lambda patch, user: patch.setattr(user.Model, "width", 9),
    "global of a file that a call imports": lambda patch, user: patch.setattr("late_of_a_user.TURN", 2.0),
    "global of another file": lambda patch, user: patch.setattr(user.helpers, "SHIFT", 2.0),
    "function of another file": lambda patch, user: patch.setattr(user.helpers, "shifted", torch.relu),
}


@pytest.mark.parametrize("change", SET.values(), ids=SET.keys())
def test_what_the_code_reads_tells_modules_apart(
    change: Callable[[pytest.MonkeyPatch, Any], None], user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, code = alike(user.Model()), code_of(user.Model)
    change(monkeypatch, user)
    assert alike(user.Model()) != before is not None
    assert code_of(user.Model) != code


def test_closures_tell_modules_apart(user: Any) -> None:
    assert alike(user.Model(user.times(2.0))) == alike(user.Model()) is not None
    assert alike(user.Model(user.times(3.0))) != alike(user.Model())


def test_what_the_code_does_not_read_or_counts_itself_tells_nothing(
    user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = alike(user.Model())
    monkeypatch.setattr(user, "UNREAD", 2.0)
    user.Model()(X)
    assert alike(user.Model()) == before and user.COUNT > 0


def test_every_process_finds_the_same(place: Path, user: Any) -> None:
    code = (
        "import torch, text_of_a_user as user\nfrom kernelwright.tasks.likeness import likeness\n"
        "from kernelwright.tasks.described import code_of\n"
        "print(likeness(user.Model(), [((torch.ones(4, 8),), {})]), code_of(user.Model))"
    )
    found = set()
    for seed in ("1", "2"):
        where = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(place), *sys.path])}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
        found.add(done.stdout.strip())
    assert found == {f"{alike(user.Model())} {code_of(user.Model)}"}


def test_what_nobody_can_describe_is_known_in_one_process_alone(
    user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user, "EPS", (item for item in ()))
    known = alike(user.Model())
    assert known == alike(user.Model())
    monkeypatch.setattr("kernelwright.tasks.described.UNKNOWABLE", "of another process")
    assert alike(user.Model()) != known


def made(source: str) -> type:
    scope: dict[str, Any] = {"nn": nn, "torch": torch, "__name__": "module_of_a_test"}
    exec(source, scope)
    kind: type = scope["Made"]
    return kind


NAMES = {
    "getattr(self, f'alpha_{x}', 1.0)": True,
    "getattr(self, name)": True,
    "hasattr(self, x + 'b')": True,
    "self.__dict__['a']": True,
    "vars(self)[x]": True,
    "getattr(self, 'alpha', 1.0)": False,
    "getattr(self, 'alpha')": False,
    "hasattr(self, 'alpha')": False,
    "self.alpha": False,
}


@pytest.mark.parametrize(("read", "wanted"), NAMES.items())
def test_names_that_are_made_at_run_time_are_noticed(read: str, wanted: bool) -> None:
    source = f"class Made(nn.Module):\n    def forward(self, x, name=''):\n        return {read}\n"
    assert makes_names(made(source)) is wanted


def test_libraries_are_told_by_name_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("library_of_a_test")
    library.__file__ = "/x/site-packages/library_of_a_test/__init__.py"
    library.__version__ = "1.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library.__name__, library)
    exec("LOCK = object()\nSCALE = 2.0\ndef act(x):\n    LOCK\n    return x * SCALE\n", vars(library))
    act = vars(library)["act"]
    assert description_of(act) == description_of(act)
    assert globals_read(act) == {"SCALE": 2.0}
