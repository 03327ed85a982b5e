"""An examination as the command makes it: in processes of its own, on every workload."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.core.checkup import Severity
from kernelwright.core.task import Task, Workload
from kernelwright.referee.checkup.checker import Checker
from kernelwright.referee.settings import RefereeSettings

SOURCE = """
import torch
N = 64
class Model(torch.nn.Module):
    def forward(self, x):
        y = x.max(1, keepdim=True).values
        return {result}
def get_inputs():
    return [torch.randn(N, 96)]
def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    cache: Path = tmp_path_factory.mktemp("cache")
    with Checker(RefereeSettings(cache_dir=cache)) as checker:
        yield checker


def test_every_workload_is_examined_and_named(checker: Checker) -> None:
    source = SOURCE.format(result="y - y.mean(1, keepdim=True)")
    workloads = (Workload(name="a"), Workload(name="b", overrides={"N": 33}))
    task = Task(name="t", source=source, workloads=workloads)
    checkup = checker.check(task)
    constant = [flag for flag in checkup.flags if flag.check == "constant-output"]
    assert [flag.workload for flag in constant] == ["a", "b"]
    assert checkup.worst is Severity.UNUSABLE and not checkup.is_trustworthy


def test_a_process_that_dies_is_a_flag_and_the_next_task_is_examined(checker: Checker) -> None:
    crash = Task(name="crash", source=SOURCE.format(result="__import__('os')._exit(3)"))
    broken = Task(name="broken", source="raise ValueError('no')")
    for task, word in ((crash, "exited with code 3"), (broken, "no")):
        (flag,) = checker.check(task).flags
        assert (flag.check, flag.severity) == ("cannot-run", Severity.UNUSABLE) and word in flag.says
    fine = Task(name="fine", source=SOURCE.format(result="x - y"))
    assert checker.check(fine).worst is not Severity.UNUSABLE
