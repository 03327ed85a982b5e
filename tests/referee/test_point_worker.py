"""The process that times points, called here: what it builds, finds again, compares and leaves out."""

import os
from pathlib import Path

import pytest

from kernelwright.referee.point_worker import PointWorker

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("seen", torch.zeros(1))
    def forward(self, x):
        return x * self.weight

def get_inputs():
    return [torch.ones(300000, 8)]

def get_init_inputs():
    return []
"""
POINT = """
import ctypes, hashlib, os
from pathlib import Path
import torch
from torch import nn
CPP_SOURCE = 'extern "C" float factor() {{ return {factor}; }}'
CXX_FLAGS = ("-O1",)
KEY = hashlib.sha256("\\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
LIBRARY = ctypes.CDLL(str(Path(os.environ["KERNELWRIGHT_BUILD_CACHE"]) / (KEY + ".so")))
LIBRARY.factor.restype = ctypes.c_float

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(8))
        self.register_buffer("seen", torch.empty(1))
    def forward(self, x):
        self.seen += 1
        return x * self.weight * LIBRARY.factor()
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PointWorker:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "KERNELWRIGHT_BUILD_CACHE", str(tmp_path))
    return PointWorker(TASK, True, 2)


def test_every_point_finds_the_library_that_was_built_of_it(worker: PointWorker) -> None:
    sources = {str(n): POINT.format(factor=1 + n / 1e3) for n in range(4)}
    assert worker.build(sources, 60.0, []) == dict.fromkeys(sources)
    called = [worker.call(int(n), source, 0) for n, source in sources.items()]
    assert all("ratio" in told for told in called), called
    assert all(len(times) == 2 for times in worker.time([0, 1, 2, 3], 2, 60.0).values())


def test_points_share_the_parameters_and_none_the_buffers(worker: PointWorker) -> None:
    source = POINT.format(factor=1.0)
    assert "ratio" in worker.call(0, source, 0)
    point = worker.points[0]
    assert point.weight.data_ptr() == worker.model.weight.data_ptr()
    assert float(point.seen) >= 1 and float(worker.model.seen) == 0


def test_a_wrong_point_is_found_by_what_is_compared(worker: PointWorker) -> None:
    assert "not close" in worker.call(0, POINT.format(factor=1.5), 0)["why"]


def test_what_does_not_build_is_named_and_what_there_was_no_time_for_is_not(worker: PointWorker) -> None:
    bad = worker.build({"1": POINT.format(factor="no_such_thing")}, 60.0, [])
    assert "error" in str(bad["1"])
    assert worker.build({"2": POINT.format(factor=2.0)}, 0.0, []) == {}


def test_only_what_is_kept_stays_loaded(worker: PointWorker) -> None:
    for number in range(3):
        worker.call(number, POINT.format(factor=1.0 + number / 1e4), 0)
    worker.build({}, 1.0, [0, 2])
    assert set(worker.points) == {0, 2}


def test_no_turn_is_begun_that_there_is_no_time_for(worker: PointWorker) -> None:
    worker.call(0, POINT.format(factor=1.0), 0)
    assert len(worker.time([0], 50, 0.0)["0"]) == 1
