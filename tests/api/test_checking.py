"""A stranger's task is examined without its code running in this process, or with the user's rights."""

from pathlib import Path

import pytest

from kernelwright.api.checking import reduced_sizes, run_check
from kernelwright.core.places import AtPath
from kernelwright.core.request import CheckRequest
from kernelwright.settings import load_settings
from kernelwright.tasks.kernelbench import load_task

SOURCE = """
import os
try:
    with open(MARK, "a") as file:
        file.write("ran\\n")
except OSError:
    pass
import torch
from torch import nn
batch_size, dim = 4096, 1024
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.rand(batch_size, dim)]
def get_init_inputs():
    return []
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def task(tmp_path: Path, mark: Path) -> Path:
    path = tmp_path / "strange.py"
    path.write_text(SOURCE.replace("MARK", repr(str(mark))), encoding="utf-8")
    return path


@pytest.mark.slow
def test_sizes_of_a_strangers_task_are_found_in_the_sandbox(task: Path, mark: Path) -> None:
    request = CheckRequest(sources=(AtPath(path=str(task)),), max_mb=1.0)
    confined = reduced_sizes(load_task(task), request, is_confined=True)
    assert not mark.exists()
    assert confined == reduced_sizes(load_task(task), request) == {"batch_size": 64}
    assert mark.exists()


def test_a_task_that_ends_its_process_keeps_its_sizes(task: Path) -> None:
    task.write_text("import os\nos._exit(3)\n" + task.read_text(encoding="utf-8"), encoding="utf-8")
    assert (
        reduced_sizes(load_task(task), CheckRequest(sources=(AtPath(path=str(task)),)), is_confined=True)
        == {}
    )


@pytest.mark.slow
def test_a_whole_check_can_be_confined(task: Path, mark: Path) -> None:
    request = CheckRequest(sources=(AtPath(path=str(task)),), max_mb=1.0, confine_tasks=True)
    (checkup,) = run_check(request, settings=load_settings(), progress=False).checkups
    assert checkup.sizes == {"batch_size": 64}
    assert not mark.exists()
