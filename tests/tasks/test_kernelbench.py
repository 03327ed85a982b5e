from pathlib import Path

import pytest

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
from kernelwright.tasks.kernelbench import load_folder, load_task, task_category, task_number
from kernelwright.tasks.manifest import load_manifest
from kernelwright.tasks.namespace import load_namespace

GOOD = """
import torch
from torch import nn
batch_size = 16
rows, columns = 4, 8
area: int = batch_size * columns
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(batch_size, columns)]
def get_init_inputs():
    return []
"""


def written(folder: Path, source: str, name: str = "7_Good.py") -> Path:
    path = folder / name
    path.write_text(source, encoding="utf-8")
    return path


def test_a_plain_file_has_one_workload_in_train_mode(tmp_path: Path) -> None:
    task = load_task(written(tmp_path, GOOD))
    assert (task.name, task_number(task), task_category(task)) == ("7_Good", 7, None)
    assert (task.mode, task.tolerance, task.workloads) == (Mode.TRAIN, TolerancePolicy.STRICT, (Workload(),))


def test_settings_are_read_from_the_file_and_arguments_win(tmp_path: Path) -> None:
    settings = 'MODE = "eval"\nTOLERANCE = "tf32"\nCATEGORY = "pointwise"\n'
    settings += 'WORKLOADS = {"small": {"batch_size": 2}}\n'
    path = written(tmp_path, GOOD + settings)
    task = load_task(path)
    assert (task.mode, task.tolerance, task_category(task)) == (Mode.EVAL, TolerancePolicy.TF32, "pointwise")
    assert task.workloads == (Workload(name="small", overrides={"batch_size": 2}),)
    assert load_task(path, mode=Mode.TRAIN, workloads=[Workload()]).workloads == (Workload(),)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (GOOD.replace("class Model", "class Modell"), "defines no `Model`"),
        (
            GOOD.replace("def get_inputs", "def inputs").replace("def get_init_inputs", "def f"),
            "get_init_inputs",
        ),
        ("import torch\ndef (:\n", ":2: syntax error"),
        ("x = 1\0", "7_Good.py"),
        (GOOD + "MODE = 'evil'\n", "MODE = 'evil' is not one of train, eval"),
        (GOOD + "WORKLOADS = {'a': 3}\n", "must be a dict"),
        (GOOD + "WORKLOADS = {'a': {'batch': 3}}\n", "rebinds batch"),
        (GOOD + "WORKLOADS = {'a': {'batch_size': {}}}\n", "WORKLOADS"),
    ],
)
def test_bad_files_are_said_in_one_line(tmp_path: Path, source: str, says: str) -> None:
    with pytest.raises(TaskError, match="7_Good") as caught:
        load_task(written(tmp_path, source))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1_x.py").write_bytes(b"x = '\xff\xfe'")
    with pytest.raises(TaskError, match="not UTF-8"):
        load_task(tmp_path / "1_x.py")
    with pytest.raises(TaskError, match="no such file"):
        load_task(tmp_path / "2_x.py")
    with pytest.raises(TaskError, match="is a folder"):
        load_task(tmp_path)


def test_names_bound_in_other_ways_count(tmp_path: Path) -> None:
    source = "try:\n    from a import Model\nexcept ImportError:\n    Model = None\n"
    source += "get_inputs = get_init_inputs = list\n"
    assert load_task(written(tmp_path, source)).name == "7_Good"


def test_folders_are_sorted_by_number_then_name(tmp_path: Path) -> None:
    for name in ("10_B.py", "9_C.py", "extra.py", "9_A.py", "__init__.py"):
        written(tmp_path, GOOD, name)
    assert [task.name for task in load_folder(tmp_path)] == ["9_A", "9_C", "10_B", "extra"]
    with pytest.raises(TaskError, match="no such folder"):
        load_folder(tmp_path / "none")


@pytest.mark.parametrize(
    ("overrides", "sizes"),
    [({}, (16, 8, 128)), ({"batch_size": 2}, (2, 8, 16)), ({"columns": 3, "batch_size": 2}, (2, 3, 6))],
)
def test_overrides_reach_what_is_computed_from_them(
    tmp_path: Path, overrides: dict[str, int], sizes: tuple[int, ...]
) -> None:
    workload = Workload(overrides=dict(overrides))
    task = load_task(written(tmp_path, GOOD), workloads=(workload,))
    namespace = load_namespace(task, workload)
    assert (namespace.batch_size, namespace.columns, namespace.area) == sizes


def test_a_name_never_assigned_cannot_be_rebound() -> None:
    workload = Workload(overrides={"nothing": 1})
    with pytest.raises(TaskError, match="rebinds nothing"):
        load_namespace(Task(name="t", source=GOOD, workloads=(workload,)), workload)


def test_a_manifest_groups_problems_and_scales_those_without_overrides(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    written(tmp_path / "level1", GOOD, "3_Good.py")
    written(
        tmp_path / "level1", GOOD.replace("batch_size = 16", "batch_size = 2**28\nbatch = 7"), "5_Held.py"
    )
    written(tmp_path / "level1", GOOD.replace("batch_size = 16", "batch_size = 8388608"), "10_Held.py")
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(
        "- {path: level1/3_Good.py, overrides: {batch_size: 4}}\n"
        "- {path: level1/5_*.py, overrides: null, group: held-out}\n"
        "- {path: level1/10_*.py, overrides: null, group: held-out}\n",
        encoding="utf-8",
    )
    loaded = load_manifest(manifest, tmp_path)
    assert [(group, task.name) for group, task in loaded] == [("main", "3_Good"), ("held-out", "10_Held")]
    assert loaded[1][1].workloads[0].overrides["batch_size"] == 4194304
    assert [group for group, _ in load_manifest(manifest, tmp_path, groups={"main"})] == ["main"]
