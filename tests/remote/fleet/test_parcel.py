"""Tasks on their way to a worker, as another machine would find them."""

import pickle
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.task import Task
from kernelwright.remote.fleet.parcel import TaskParcel
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.namespace import construct_model, load_namespace

X = torch.ones(2, 4)


@pytest.fixture
def live(tmp_path: Path) -> tuple[nn.Module, Task]:
    module = nn.Linear(4, 3)
    return module, task_from_module(module, (X,), name="live", folder=tmp_path / "it's here")


def test_a_live_module_is_there_without_the_driver_s_files(
    tmp_path: Path, live: tuple[nn.Module, Task]
) -> None:
    module, task = live
    travelled = pickle.dumps(TaskParcel.of(task))
    shutil.rmtree(tmp_path / "it's here")
    there = pickle.loads(travelled).unpack(tmp_path / "there")
    made = construct_model(there, load_namespace(there, there.workloads[0]), seed=0)
    with torch.no_grad():
        assert torch.equal(made(X), module(X))
    assert there.artifact is not None and Path(there.artifact).parent == tmp_path / "there"
    assert repr(task.artifact) not in there.source


def test_a_file_s_task_is_the_same_everywhere() -> None:
    task = Task(name="file", source="x = 1", path="here.py")
    assert TaskParcel.of(task).unpack(None) == task


def test_a_worker_that_confines_tasks_reads_no_pickle(live: tuple[nn.Module, Task]) -> None:
    with pytest.raises(UserError, match="live: this worker runs strangers' tasks, confined"):
        TaskParcel.of(live[1]).unpack(None)


def test_a_pickle_that_is_gone_is_one_line(tmp_path: Path, live: tuple[nn.Module, Task]) -> None:
    shutil.rmtree(tmp_path / "it's here")
    with pytest.raises(TaskError, match=r"live: cannot read .*\.pkl \(No such file"):
        TaskParcel.of(live[1])
