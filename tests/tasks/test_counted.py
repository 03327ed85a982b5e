"""What was counted of a task is kept by content, as long as the files that its code read are the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.core.roofline import Work
from kernelwright.core.task import Task
from kernelwright.tasks.counted import CountedWork, FileStamp, find_counted, keep_counted, stamps

TASK = Task(name="t", source="a")
OTHER = Task(name="t", source="b")


def counted(*files: Path) -> CountedWork:
    return CountedWork(works={"default": Work(flops=1, min_bytes=2)}, files=stamps(map(str, files)))


def test_it_is_found_by_task_and_torch(tmp_path: Path) -> None:
    keep_counted(TASK, tmp_path, "2.0", counted())
    assert find_counted(TASK, tmp_path, "2.0") == counted()
    assert find_counted(OTHER, tmp_path, "2.0") is None
    assert find_counted(TASK, tmp_path, "2.1") is None
    assert find_counted(TASK, tmp_path / "elsewhere", "2.0") is None


@pytest.mark.parametrize("change", ["other text", None])
def test_a_file_that_has_changed_or_gone_makes_it_useless(tmp_path: Path, change: str | None) -> None:
    file = tmp_path / "weights"
    file.write_text("text", encoding="utf-8")
    keep_counted(TASK, tmp_path, None, counted(file))
    assert find_counted(TASK, tmp_path, None) == counted(file)
    if change is None:
        file.unlink()
    else:
        file.write_text(change, encoding="utf-8")
    assert find_counted(TASK, tmp_path, None) is None


def test_a_file_of_the_same_size_is_told_by_its_time(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_text("text", encoding="utf-8")
    stamp = FileStamp.of(str(file))
    os.utime(file, ns=(1, 1))
    assert not stamp.holds()


def test_a_file_that_comes_to_be_is_a_change(tmp_path: Path) -> None:
    stamp = FileStamp.of(str(tmp_path / "later"))
    assert stamp.holds()
    (tmp_path / "later").touch()
    assert not stamp.holds()


def test_what_is_damaged_or_cannot_be_kept_is_counted_again(tmp_path: Path) -> None:
    keep_counted(TASK, tmp_path, None, counted())
    (kept,) = (tmp_path / "work").iterdir()
    kept.write_text("{", encoding="utf-8")
    assert find_counted(TASK, tmp_path, None) is None
    (tmp_path / "file").touch()
    keep_counted(TASK, tmp_path / "file", None, counted())
    assert find_counted(TASK, tmp_path / "file", None) is None


WATCH = """
import sys
from kernelwright.core.task import Task
from kernelwright.tasks.watched import count_watched
source = open(sys.argv[1]).read()
found = count_watched(Task(name="t", source=source))
print(found.model_dump_json())
"""
READS = """
import torch
import scale_of_theirs
FACTOR = float(open({data!r}).read())

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * FACTOR * scale_of_theirs.MORE

def get_inputs():
    return [torch.rand(8, 16)]

def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_the_files_that_a_tasks_code_reads_are_noted(tmp_path: Path) -> None:
    data, module, task = tmp_path / "data.txt", tmp_path / "scale_of_theirs.py", tmp_path / "task.py"
    data.write_text("2.0", encoding="utf-8")
    module.write_text("MORE = 3.0\n", encoding="utf-8")
    task.write_text(READS.format(data=str(data)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(task)], env=environment, capture_output=True, text=True, check=True
    )
    found = CountedWork.model_validate_json(done.stdout.splitlines()[-1])
    assert found.works["default"].min_bytes == 2 * 8 * 16 * 4 and found.is_strict and found.holds()
    assert {str(data), str(module)} <= {stamp.path for stamp in found.files}
    assert not [stamp.path for stamp in found.files if "site-packages" in stamp.path]
    module.write_text("MORE = 4.0  # longer\n", encoding="utf-8")
    assert not found.holds()
