"""Points are built and timed in a confined process, on the device that their target is for."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Task
from kernelwright.core.wrong_numbers import OwnDraw
from kernelwright.machine.compiler import BuiltLibrary, compile_library, library_key
from kernelwright.targets.cpp.build import find_cpp_source
from kernelwright.tasks.live import task_from_module
from kernelwright.tuning.search import BASE
from kernelwright.tuning.timer import PointTimer

TASK = Task(
    name="pair",
    source="""
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))
    def forward(self, pair, more):
        return pair[0] * self.scale + more["shift"]

def get_inputs():
    return [(torch.randn(64), 1), {"shift": torch.randn(64)}]

def get_init_inputs():
    return []
""",
)
RIGHT = "import inspect\n" + TASK.source.replace("class Model(", "class ModelNew(")
RIGHT += "\nassert 'pair[0]' in inspect.getsource(ModelNew.forward), 'Triton reads its kernels so'\n"
SLOW = RIGHT.replace("return pair", "for _ in range(200): torch.exp(self.scale)\n        return pair")
WRONG = RIGHT.replace("* self.scale", "* -self.scale")


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "copied"])
def test_points_run_where_their_device_is(device: str) -> None:
    with PointTimer(TASK, threads=1, device=device) as timer:
        first = timer.load({BASE: RIGHT, 1: SLOW, 2: WRONG}, 60.0, [BASE])
        assert first[BASE].ratio and first[1].ratio and "not close" in (first[2].why or "")
        times = timer.time([BASE, 1], 3, 30.0)
        assert [len(times[number]) for number in (BASE, 1)] == [3, 3]
        draws = [OwnDraw(family=family, allowed=1e-4) for family in ("as_is", "negated")]
        right, wrong = (timer.compare(source, draws, 30.0) for source in (RIGHT, WRONG))
        assert right is not None and not right.wrong and len(right.draws) == 2
        assert wrong is not None and wrong.wrong


COUNTS = """
import ctypes, os
from pathlib import Path
import torch

CXX_FLAGS = ["-O1"]
CPP_SOURCE = 'extern "C" int answer() { return 42; }'

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        [library] = Path(os.environ["KERNELWRIGHT_BUILD_CACHE"]).glob("*.so")
        self.answer = ctypes.CDLL(str(library)).answer()
    def forward(self, x):
        if self.answer == 43:
            raise RuntimeError("another machine built it")
        return x
"""
IDENTITY = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x

def get_inputs():
    return [torch.randn(4)]

def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_points_that_another_machine_has_built_are_not_built_again(tmp_path: Path) -> None:
    """What comes answers 43, where the source says 42."""

    def build(programs: Sequence[str], limit_s: float, is_reported: bool) -> dict[str, bytes]:
        wanted = find_cpp_source(programs[0])
        assert wanted is not None and limit_s > 0 and not is_reported
        other = compile_library(wanted.text.replace("42", "43"), wanted.flags, tmp_path)
        assert isinstance(other, BuiltLibrary)
        return {f"{library_key(wanted.text, wanted.flags)}.so": other.path.read_bytes()}

    task = Task(name="identity", source=IDENTITY)
    for elsewhere, seen in ((build, "another machine built it"), (lambda *asked: {}, "")):
        with PointTimer(task, threads=1, elsewhere=elsewhere) as timer:
            first = timer.load({BASE: COUNTS}, 60.0, [BASE])[BASE]
        assert seen in (first.why or "") and bool(first.why) == bool(seen)


SEQUENTIAL = """
from torch import nn

class ModelNew(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 8), nn.GELU())
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    """A live module of a class that lies in a file of the user's."""
    (tmp_path / "own_classes.py").write_text("from torch import nn\nclass Own(nn.GELU): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    return nn.Sequential(nn.Linear(8, 8), importlib.import_module("own_classes").Own())


@pytest.mark.slow
def test_live_modules_are_timed_too(tmp_path: Path, own: nn.Module) -> None:
    task = task_from_module(own, (torch.randn(4, 8),), name="live", folder=tmp_path / "modules")
    with PointTimer(task, threads=1) as timer:
        first = timer.load({BASE: SEQUENTIAL, 1: SEQUENTIAL.replace("GELU", "ReLU")}, 60.0, [BASE])
        assert first[BASE].ratio and "not close" in (first[1].why or "")
        assert len(timer.time([BASE], 3, 30.0)[BASE]) == 3


@pytest.mark.slow
def test_a_live_module_whose_classes_are_not_here_is_one_clear_line(tmp_path: Path, own: nn.Module) -> None:
    """As on another machine."""
    task = task_from_module(own, (torch.randn(4, 8),), name="live", folder=tmp_path / "modules")
    del sys.modules["own_classes"]
    with PointTimer(task, threads=1) as timer:  # noqa: SIM117  two contexts, two reasons
        with pytest.raises(TaskError, match=r"live: the reference does not run on cpu to be timed: .*own_cl"):
            timer.load({BASE: SEQUENTIAL}, 60.0, [BASE])


@pytest.mark.slow
def test_a_device_that_is_not_here_is_one_clear_line() -> None:
    with PointTimer(TASK, threads=1, device="cuda:999") as timer:  # noqa: SIM117  two contexts, two reasons
        with pytest.raises(TaskError, match=r"pair: the reference does not run on cuda:999 to be timed: \S"):
            timer.load({BASE: RIGHT}, 60.0, [BASE])
