"""Other formats become tasks and kernels that run here and compute what theirs compute."""

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.formats.samples import (
    DEFINITION,
    REFERENCE,
    RETURNS,
    flashinfer_dataset,
    popcorn_problem,
    robust_task,
    solution,
    workload,
    write,
)

from kernelwright.core.errors import UserError
from kernelwright.core.task import Task
from kernelwright.formats.claims import CLAIMS
from kernelwright.formats.flashinfer_in import read_flashinfer
from kernelwright.formats.package import Converted
from kernelwright.formats.popcorn import read_popcorn
from kernelwright.formats.robust_kbench import read_robust_kbench
from kernelwright.tasks.kernelbench import parse_task
from kernelwright.tasks.namespace import load_namespace

AXES = {"batch": {"type": "var"}, "width": {"type": "const", "value": 32}}


def task_of(converted: Converted, name: str) -> Task:
    return parse_task(converted.files[name], Path(name))


def call(task: Task, index: int = 0, kernel: str | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return what the reference gives on a workload, and what a kernel gives on the same inputs."""
    space = load_namespace(task, task.workloads[index])
    torch.manual_seed(7)
    inputs = space.get_inputs()
    torch.manual_seed(7)
    expected = space.Model(*space.get_init_inputs())(*inputs)
    if kernel is None:
        return expected, None
    own = ModuleType("kernel")
    exec(kernel, own.__dict__)
    return expected, own.ModelNew(*space.get_init_inputs())(*inputs)


def test_a_flashinfer_dataset(tmp_path: Path) -> None:
    converted = read_flashinfer(flashinfer_dataset(tmp_path))
    task = task_of(converted, "rms_norm_w32.py")
    assert [one.name for one in task.workloads] == ["b4", "b12"]
    for index, rows in enumerate((4, 12)):
        assert call(task, index)[0].shape == (rows, 32)
    for name in ("returns", "writes"):
        expected, found = call(task, 1, converted.files[f"rms_norm_w32__{name}.py"])
        assert found is not None and torch.equal(expected, found)
    (claim,) = json.loads(converted.files[CLAIMS])
    assert (claim["kernel"], claim["speedup"], claim["hardware"]) == (
        "rms_norm_w32__returns.py", 3.0, "a GPU",
    )  # fmt: skip
    text = " ".join(converted.notes)
    for note in ("1 workloads with stored tensors", "compiled is in cuda", "constraints"):
        assert note in text


def test_one_definition_finds_its_workloads(tmp_path: Path) -> None:
    root = flashinfer_dataset(tmp_path)
    converted = read_flashinfer(root / "definitions" / "norm" / "rms_norm_w32.json")
    assert "rms_norm_w32.py" in converted.files


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reference": "def other(): pass"}, "defines no function run"),
        ({"reference": "def run(:"}, "not Python"),
        ({"axes": {**AXES, "run": {"type": "const", "value": 3}}}, "run cannot be names"),
        ({"axes": {"batch": {"type": "var"}}}, "axis width, which the definition does not name"),
        ({"inputs": {"x": {"shape": ["width"], "dtype": "float4_e2m1"}}}, "which nobody here can draw"),
        ({"inputs": {"x": {"shape": 3, "dtype": "float32"}}}, "inputs.x.shape"),
        ({"name": ""}, "name: String should have at least 1"),
    ],
)
def test_a_bad_definition_is_one_line(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    write(tmp_path, "definitions/bad.json", json.dumps({**DEFINITION, **changes}))
    name = {**DEFINITION, **changes}["name"]
    lines = json.dumps({"definition": name, "workload": workload(4)})
    write(tmp_path, f"workloads/{name}.jsonl", lines)
    with pytest.raises(UserError, match=says) as caught:
        read_flashinfer(tmp_path)
    assert "\n" not in str(caught.value)


def test_sizes_that_nobody_says_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "definitions/bare.json", json.dumps(DEFINITION))
    with pytest.raises(UserError, match="no workload says how large batch"):
        read_flashinfer(tmp_path)


def test_a_popcorn_problem_with_a_submission(tmp_path: Path) -> None:
    converted = read_popcorn(popcorn_problem(tmp_path))
    task = task_of(converted, "scan.py")
    assert [one.overrides for one in task.workloads] == [{"size": 64}, {"size": 128}]
    expected, found = call(task, 1, converted.files["scan__submission.py"])
    assert found is not None and torch.allclose(expected, found, atol=1e-4)
    assert "tolerances" in " ".join(converted.notes) and "processor" in " ".join(converted.notes)


def test_a_popcorn_reference_leaves_its_inputs_alone_and_follows_the_seed(tmp_path: Path) -> None:
    task = task_of(read_popcorn(popcorn_problem(tmp_path)), "scan.py")
    space = load_namespace(task, task.workloads[0])
    torch.manual_seed(1)
    first = space.get_inputs()
    kept = [one.clone() for one in first]
    out = space.Model()(*first)
    assert all(torch.equal(a, b) or a.isnan().any() for a, b in zip(first, kept, strict=True))
    assert out.data_ptr() != first[1].data_ptr()
    torch.manual_seed(2)
    assert not torch.equal(space.get_inputs()[0], first[0])


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("task.yml", "lang: py", "lists no benchmarks"),
        ("task.yml", "[1", "no YAML"),
        ("task.yml", 'benchmarks:\n  - {"rows": 2}', "generate_input takes no rows"),
        ("reference.py", "def ref_kernel(data): return data", "defines no function generate_input"),
        ("reference.py", "from utils import secret\ndef ref_kernel(d): return secret(d)\n"
         "def generate_input(size, seed): return size", "uses secret of the harness"),
    ],
)  # fmt: skip
def test_a_bad_popcorn_problem_is_one_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    folder = popcorn_problem(tmp_path)
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        read_popcorn(folder)


def test_a_robust_kbench_task(tmp_path: Path) -> None:
    task = task_of(read_robust_kbench(robust_task(tmp_path)), "scaled.py")
    sizes = [(one.overrides["batch"], one.overrides["features"]) for one in task.workloads]
    assert sizes == [(3, 8), (3, 16), (5, 8), (5, 16)]
    for index, size in enumerate(sizes):
        assert call(task, index)[0].shape == size


def test_a_bad_robust_kbench_task_is_one_line(tmp_path: Path) -> None:
    folder = robust_task(tmp_path)
    (folder / "config_forward.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="no list single_init_configs"):
        read_robust_kbench(folder)
    for read in (read_robust_kbench, read_popcorn, read_flashinfer):
        with pytest.raises(UserError, match="there"):
            read(tmp_path / "nowhere")


FUTURE = '"""Theirs."""\nfrom __future__ import annotations\n'


def test_future_imports_of_a_flashinfer_dataset_stand_at_the_top(tmp_path: Path) -> None:
    root = flashinfer_dataset(tmp_path)
    reference = FUTURE + REFERENCE.replace("run(x,", "run(x: Unknown,")
    write(root, "definitions/norm/rms_norm_w32.json", json.dumps({**DEFINITION, "reference": reference}))
    plain = FUTURE + RETURNS.replace("kernel(x,", "kernel(x: Unknown,")
    apart = f"{FUTURE}from math import *\nMODE = sqrt(4.0)\n{RETURNS}"
    for name, source in (("plain", plain), ("apart", apart)):
        one = solution(name, source, destination_passing_style=False)
        write(root, f"solutions/norm/{name}.json", json.dumps(one))
    converted = read_flashinfer(root)
    task = task_of(converted, "rms_norm_w32.py")
    for name in ("plain", "apart"):
        expected, found = call(task, 0, converted.files[f"rms_norm_w32__{name}.py"])
        assert found is not None and torch.equal(expected, found)


def test_future_imports_of_a_popcorn_problem_stand_at_the_top(tmp_path: Path) -> None:
    folder = popcorn_problem(tmp_path)
    for name in ("reference.py", "submission.py"):
        text = (folder / name).read_text(encoding="utf-8").replace("data: input_t", "data: Unknown")
        (folder / name).write_text(FUTURE + text, encoding="utf-8")
    converted = read_popcorn(folder)
    expected, found = call(task_of(converted, "scan.py"), 0, converted.files["scan__submission.py"])
    assert found is not None and torch.allclose(expected, found, atol=1e-4)


def test_a_star_import_of_popcorns_harness_gives_its_stand_ins(tmp_path: Path) -> None:
    folder = popcorn_problem(tmp_path)
    for name in ("reference.py", "submission.py"):
        text = (folder / name).read_text(encoding="utf-8")
        text = text.replace("from task import input_t, output_t", "from task import *")
        (folder / name).write_text(text, encoding="utf-8")
    converted = read_popcorn(folder)
    assert call(task_of(converted, "scan.py"), 0, converted.files["scan__submission.py"])[1] is not None


def test_future_imports_of_a_robust_kbench_task_stand_at_the_top(tmp_path: Path) -> None:
    folder = robust_task(tmp_path)
    file = folder / "func_forward.py"
    text = file.read_text(encoding="utf-8").replace("features: int,", "features: Unknown,")
    file.write_text(FUTURE + text, encoding="utf-8")
    assert call(task_of(read_robust_kbench(folder), "scaled.py"))[0].shape == (3, 8)


def test_readers_say_which_files_are_tasks(tmp_path: Path) -> None:
    made = (
        (read_flashinfer(flashinfer_dataset(tmp_path / "f")), "rms_norm_w32.py"),
        (read_popcorn(popcorn_problem(tmp_path / "p")), "scan.py"),
        (read_robust_kbench(robust_task(tmp_path / "r")), "scaled.py"),
    )
    for converted, task in made:
        assert converted.tasks == (task,)
