"""Broken and incomplete data of others: a note where the rest converts, else one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.samples import (
    DEFINITION,
    RETURNS,
    flashinfer_dataset,
    popcorn_problem,
    robust_task,
    solution,
    workload,
    write,
)

from kernelwright.core.errors import UserError
from kernelwright.formats.claims import CLAIMS
from kernelwright.formats.flashinfer_in import read_flashinfer
from kernelwright.formats.kernelbench import read_kernelbench
from kernelwright.formats.package import Converted
from kernelwright.formats.popcorn import read_popcorn
from kernelwright.formats.robust_kbench import read_robust_kbench

WHOLE = {"rms_norm_w32.py", "rms_norm_w32__returns.py", "rms_norm_w32__writes.py", CLAIMS}
TRACES = "traces/more/rms_norm_w32.jsonl"


def trace(speedup: float = 2.0, **changes: object) -> dict[str, Any]:
    """Return a trace of the solution ``returns``."""
    judged = {
        "status": "PASSED",
        "environment": {"hardware": "a GPU"},
        "timestamp": "2026-01-01",
        "performance": {"latency_ms": 1.0, "reference_latency_ms": 2.0, "speedup_factor": speedup},
    }
    whole = {"definition": "rms_norm_w32", "workload": workload(4), "solution": "returns"}
    return {**whole, "evaluation": judged, **changes}


def lines(*records: object) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def said(converted: Converted) -> str:
    assert all("\n" not in note for note in converted.notes)
    return " | ".join(converted.notes)


NO_AXES = {**workload(4), "axes": {}, "uuid": "bare"}
BARE = {"definition": "rms_norm_w32", "workload": NO_AXES}
INFINITE = {**BARE, "workload": workload(7, eps={"type": "scalar", "value": float("inf")})}


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("solutions/norm/broken.json", "{", "broken.json: no JSON"),
        ("solutions/norm/broken.json", "[" * 99999, "broken.json: no JSON"),
        ("solutions/norm/other.json", "[]", "other.json: document"),
        ("definitions/norm/broken.json", "{", "broken.json: no JSON"),
        ("definitions/norm/other.json", "{}", "other.json: name"),
        (TRACES, "\udcff", "cannot be read"),
        (TRACES, "{\n[]\n", ":1: no JSON"),
        (TRACES, "{\n[]\n", "1 more lines of the file are left out too"),
        (TRACES, lines(trace(solution=None)), "solution and evaluation go together"),
        (TRACES, lines(trace(evaluation=None)), "solution and evaluation go together"),
        (TRACES, lines(trace(definition="other")), "about the definition other"),
        (TRACES, lines(trace(workload=NO_AXES)), "bare does not say how large batch"),
        ("workloads/more/rms_norm_w32.jsonl", lines(BARE), "bare does not say how large batch"),
        ("workloads/more/rms_norm_w32.jsonl", lines(INFINITE), "has inf for the scalar eps"),
    ],
)
def test_one_broken_part_of_a_flashinfer_dataset_is_a_note(
    tmp_path: Path, file: str, text: str, says: str
) -> None:
    root = flashinfer_dataset(tmp_path)
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text, encoding="utf-8", errors="surrogateescape")
    converted = read_flashinfer(root)
    assert set(converted.files) == WHOLE and converted.tasks == ("rms_norm_w32.py",)
    assert says in said(converted)
    assert len(json.loads(converted.files[CLAIMS])) == 1


def test_a_workload_without_a_size_alone_is_one_line(tmp_path: Path) -> None:
    write(tmp_path, "definitions/one.json", json.dumps(DEFINITION))
    write(tmp_path, "workloads/rms_norm_w32.jsonl", lines(BARE))
    with pytest.raises(UserError, match="bare does not say how large batch") as caught:
        read_flashinfer(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("speedup", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_speedup_that_is_none_is_not_claimed(tmp_path: Path, speedup: float) -> None:
    root = flashinfer_dataset(tmp_path)
    write(root, TRACES, lines(trace(speedup)))
    claims = json.loads(read_flashinfer(root).files[CLAIMS])
    assert sorted(str(claim.get("speedup")) for claim in claims) == ["3.0", "None"]


def test_an_output_with_an_axis_of_no_input_is_a_note(tmp_path: Path) -> None:
    root = flashinfer_dataset(tmp_path)
    definition = {
        **DEFINITION,
        "axes": {**DEFINITION["axes"], "extra": {"type": "var"}},  # type: ignore[dict-item]
        "outputs": {"y": {"shape": ["extra", "width"], "dtype": "float32"}},
    }
    write(root, "definitions/norm/rms_norm_w32.json", json.dumps(definition))
    sized = {**workload(4), "axes": {"batch": 4, "extra": 2}}
    write(root, "workloads/norm/rms_norm_w32.jsonl", lines({"definition": "rms_norm_w32", "workload": sized}))
    converted = read_flashinfer(root)
    assert "output y has the axis extra, which no input has" in said(converted)
    assert "rms_norm_w32__returns.py" in converted.files
    assert "rms_norm_w32__writes.py" not in converted.files


def test_a_constant_axis_without_a_value_is_one_line(tmp_path: Path) -> None:
    axes = {**DEFINITION["axes"], "width": {"type": "const"}}  # type: ignore[dict-item]
    write(tmp_path, "definitions/one.json", json.dumps({**DEFINITION, "axes": axes}))
    with pytest.raises(UserError, match="a constant axis has a value"):
        read_flashinfer(tmp_path)


def test_of_solutions_that_would_be_one_file_the_first_converts(tmp_path: Path) -> None:
    root = flashinfer_dataset(tmp_path)
    for name in ("k-1", "k_1"):
        one = solution(name, RETURNS, destination_passing_style=False)
        write(root, f"solutions/more/{name}.json", json.dumps(one))
    write(root, TRACES, lines(trace(solution="k-1"), trace(solution="k_1")))
    converted = read_flashinfer(root)
    assert "solution k_1 is left out: another of that name" in said(converted)
    names = [claim["name"] for claim in json.loads(converted.files[CLAIMS])]
    assert "k-1 on b4" in names and "k_1 on b4" not in names


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"def custom_kernel(:\n", "bad.py: not Python"),
        (b"# def custom_kernel \xff\n", "bad.py: cannot be read"),
    ],
)
def test_a_broken_submission_is_a_note(tmp_path: Path, data: bytes, says: str) -> None:
    folder = popcorn_problem(tmp_path)
    (folder / "solutions").mkdir()
    (folder / "solutions" / "bad.py").write_bytes(data)
    converted = read_popcorn(folder)
    assert set(converted.files) == {"scan.py", "scan__submission.py"} and says in said(converted)


@pytest.mark.parametrize(
    ("text", "says"),
    [("benchmarks:\n  - {1: 2, a: 3}\n", "generate_input takes no 1, a"), ("a: 2001-99-99\n", "no YAML")],
)
def test_a_problem_of_another_form_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    folder = popcorn_problem(tmp_path)
    (folder / "task.yml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        read_popcorn(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [(None, "no mapping at top level"), ({"single_init_configs": [1]}, "single is no mapping of names")],
)
def test_a_configuration_of_another_form_is_one_line(tmp_path: Path, change: Any, says: str) -> None:
    folder = robust_task(tmp_path)
    file = folder / "config_forward.json"
    document = [] if change is None else {**json.loads(file.read_text(encoding="utf-8")), **change}
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UserError, match=says):
        read_robust_kbench(folder)


def test_broken_generations_are_notes(tmp_path: Path) -> None:
    for sample, data in enumerate((b"class ModelNew: pass\n", b"def f(:\n", b"\xff")):
        (tmp_path / f"level_1_problem_1_sample_{sample}_kernel.py").write_bytes(data)
    converted = read_kernelbench(tmp_path)
    assert [name[-11:-10] for name in converted.files] == ["0", "1"]
    assert "sample_1_kernel.py: not Python" in said(converted)
    assert "sample_2_kernel.py: cannot be read" in said(converted)
