"""Tasks, kernels and verdicts in other formats: what we write can be read, validated and run."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.formats.samples import KERNEL, TASK

from kernelwright.api.submissions import run_submission
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import (
    Check,
    Evaluation,
    Speedup,
    Stage,
    Status,
    Timing,
    WorkloadResult,
)
from kernelwright.core.options import EXPORT_FORMATS, IMPORT_FORMATS
from kernelwright.core.request import SubmissionRequest
from kernelwright.formats.flashinfer_in import read_flashinfer
from kernelwright.formats.flashinfer_out import write_flashinfer
from kernelwright.formats.hf_kernels import write_hf_kernels
from kernelwright.formats.kernelbench import (
    BenchClaim,
    GenerationId,
    fast_p,
    read_kernelbench,
    read_submission,
    write_generations,
)
from kernelwright.formats.package import Converted, Package
from kernelwright.formats.table import reader, writer
from kernelwright.report.submissions import JudgedGeneration, SubmissionResult
from kernelwright.tasks.kernelbench import parse_task
from kernelwright.tasks.namespace import load_namespace

OURS = parse_task(TASK, Path("scaled_softmax.py"))


def verdict(status: Status = Status.VERIFIED) -> Evaluation:
    """Return a made-up verdict."""
    timing = Timing(median_ms=1.0, p10_ms=0.9, p90_ms=1.1, n_samples=5, calls_per_sample=2)
    eager = timing.model_copy(update={"median_ms": 2.0})
    speedup = Speedup(baseline="eager", ratio=2.0, low=1.8, high=2.2)
    results = [
        WorkloadResult(workload=one.name, candidate=timing, baselines={"eager": eager}, speedups=(speedup,))
        for one in OURS.workloads
    ]
    is_good = status is Status.VERIFIED
    return Evaluation(
        candidate_id="c", task_id=OURS.id, status=status, stage=Stage.DONE if is_good else Stage.VERIFY,
        check=None if is_good else Check.ORACLE, results=tuple(results) if is_good else (),
    )  # fmt: skip


def package(*statuses: Status) -> Package:
    kernels = {f"k{i}": KERNEL for i in range(len(statuses))}
    return Package(OURS, kernels, tuple(map(verdict, statuses)), hardware="a processor")


def save(converted: Converted, folder: Path) -> Path:
    for name, text in converted.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_the_table_names_every_format() -> None:
    assert all(callable(reader(name)) for name in IMPORT_FORMATS)
    assert all(callable(writer(name)) for name in EXPORT_FORMATS)


def test_flashinfer_and_back(tmp_path: Path) -> None:
    written = write_flashinfer(package(Status.VERIFIED, Status.INCORRECT_NUMERICS))
    back = read_flashinfer(save(written, tmp_path))
    task = parse_task(back.files["scaled_softmax.py"], Path("back.py"))
    assert [one.overrides["rows"] for one in task.workloads] == [8, 24]
    for workload in task.workloads:
        space = load_namespace(task, workload)
        x, factor, scale = space.get_inputs()
        kernel = ModuleType("kernel")
        exec(back.files["scaled_softmax__k0.py"], kernel.__dict__)
        expected = torch.softmax(x * scale, dim=-1) * factor
        assert torch.allclose(space.Model()(x, factor, scale), expected)
        assert torch.allclose(kernel.ModelNew()(x, factor, scale), expected)
    claims = json.loads(back.files["claims.json"])
    assert [claim.get("correct", True) for claim in claims] == [True, True, False, False]
    assert claims[0]["speedup"] == 2.0


def test_their_own_package_accepts_what_we_write(tmp_path: Path) -> None:
    theirs: Any = pytest.importorskip("flashinfer_bench.data")
    written = write_flashinfer(package(*Status))
    for name, text in written.files.items():
        kind = name.split("/")[0]
        if kind == "definitions":
            definition = theirs.Definition.model_validate_json(text)
            assert list(definition.const_axes) == ["n16"] and definition.var_axes == ["rows"]
        elif kind == "solutions":
            theirs.Solution.model_validate_json(text)
        else:
            traces = [theirs.Trace.model_validate_json(line) for line in text.splitlines()]
            assert all(trace.is_workload_trace() == (kind == "workloads") for trace in traces)


def test_a_constructor_that_differs_between_workloads_is_refused() -> None:
    task = parse_task(TASK.replace('{"rows": 24}', '{"width": 24}'), Path("t.py"))
    with pytest.raises(UserError, match="constructor's arguments differ"):
        write_flashinfer(Package(task))


LOAD = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]))
model = kernel.ModelNew(16)
print(tuple(model(torch.ones(2, 16), 2.0).shape))
"""


def test_a_hugging_face_repository_loads_through_their_library(tmp_path: Path) -> None:
    pytest.importorskip("kernels")
    save(write_hf_kernels(package(Status.VERIFIED)), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "(2, 16)", done.stderr


def test_a_hugging_face_repository_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(write_hf_kernels(package(Status.VERIFIED)), tmp_path)
    built = folder / "build" / "torch-cpu"
    metadata = json.loads((built / "metadata.json").read_text())
    assert metadata["id"].isidentifier() and metadata["name"] == "scaled-softmax"
    assert set(metadata["digest"]["files"]) == {
        "__init__.py", "kernel.py", "layers.py", "scaled_softmax/__init__.py",
    }  # fmt: skip
    assert "[torch-noarch]" in (folder / "build.toml").read_text()
    assert "2.00x over eager [1.80, 2.20]" in (folder / "README.md").read_text()
    monkeypatch.syspath_prepend(str(built))
    assert importlib.import_module("scaled_softmax").ModelNew
    with pytest.raises(UserError, match="one kernel, not 2"):
        write_hf_kernels(package(Status.VERIFIED, Status.VERIFIED))


def test_a_kernelbench_run_and_back(tmp_path: Path) -> None:
    keys = [GenerationId(1, 19, 0), GenerationId(1, 20, 0), GenerationId(1, 20, 1)]
    verdicts = dict(zip(keys, map(verdict, (Status.VERIFIED, Status.CRASHED, Status.VERIFIED)), strict=True))
    save(write_generations(dict.fromkeys(keys, KERNEL), verdicts), tmp_path)
    found = read_submission(tmp_path)
    assert list(found.kernels) == keys and set(found.kernels.values()) == {KERNEL}
    assert [claim.correctness for claim in found.claims.values()] == [True, False, True]
    assert all(claim.compiled for claim in found.claims.values())
    assert {name.split("_sample")[0] for name in read_kernelbench(tmp_path).files} == {
        "level_1_problem_19", "level_1_problem_20", "claims.json",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["[]", "{", '{"1": [{"sample_id": 0}]}', '{"x": [{"sample_id": 0}]}'])
def test_results_of_another_form_are_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "level_1_problem_1_sample_0_kernel.py").write_text("x = 1\n")
    (tmp_path / "eval_results.json").write_text(text)
    with pytest.raises(UserError, match=r"eval_results\.json"):
        read_submission(tmp_path)


def test_where_claim_and_verdict_differ() -> None:
    def row(problem: int, status: Status, *, correct: bool, claimed: float | None) -> JudgedGeneration:
        claim = BenchClaim(compiled=True, correctness=correct, runtime=1.0)
        key = GenerationId(1, problem, 0)
        return JudgedGeneration(key, f"{problem}_x", {}, verdict(status), "", claim, claimed)

    rows = (
        row(1, Status.VERIFIED, correct=True, claimed=2.0),
        row(2, Status.VERIFIED, correct=True, claimed=9.0),
        row(3, Status.INCORRECT_NUMERICS, correct=True, claimed=30.0),
        row(4, Status.VERIFIED, correct=False, claimed=None),
    )
    result = SubmissionResult(rows, 8, "kernelwright submission", {})
    said = [one.difference for one in rows]
    assert said[0] == "" and "another machine" in said[1]
    assert said[2].startswith("claimed correct; oracle") and "claimed wrong" in said[3]
    assert not result.is_success
    shares = {p: (theirs, ours) for p, theirs, ours in result.fast_p()}
    assert shares[0.0] == shares[1.0] == (3 / 8, 3 / 8) and shares[2.0][0] == 2 / 8
    assert json.loads(result.files()["submission.json"])["problems"] == 8
    unknown = SubmissionResult((row(1, Status.VERIFIED, correct=True, claimed=None),), 1, "", {})
    assert unknown.fast_p()[0][1] is None and "not known" in unknown.files()["submission.md"]


@pytest.mark.slow
def test_a_whole_run_is_judged(tmp_path: Path) -> None:
    problem = KERNEL.replace("class ModelNew(", "class Model(").replace("WORKLOADS =", "OTHERS =")
    save(Converted({f"level1/{n}_Scaled.py": problem for n in (1, 2, 3)}), tmp_path / "problems")
    wrong = KERNEL.replace("* factor", "* factor + 1e-3")
    keys = [GenerationId(1, 1, 0), GenerationId(1, 2, 0), GenerationId(1, 9, 0)]
    right = dict.fromkeys(keys, verdict())
    save(write_generations(dict(zip(keys, (KERNEL, wrong, KERNEL), strict=True)), right), tmp_path / "run")
    timing = {"level1": {f"{n}_Scaled.py": {"mean": 4.0} for n in (1, 2, 3)}}
    (tmp_path / "times.json").write_text(json.dumps(timing))
    request = SubmissionRequest(
        folder=str(tmp_path / "run"), problems=str(tmp_path / "problems"),
        reference_times=str(tmp_path / "times.json"),
    )  # fmt: skip
    result = run_submission(request)
    assert [row.evaluation and row.evaluation.status for row in result.rows] == [
        Status.VERIFIED, Status.INCORRECT_NUMERICS, None,
    ]  # fmt: skip
    assert "no problem 9" in result.rows[2].reason and result.n_problems == 3
    theirs, ours = result.fast_p()[0][1:]
    assert (theirs, ours) == (None, 1 / 3)  # of the unknown problem their reference's time is not known


def test_fast_p_counts_every_problem_once() -> None:
    speedups = {
        GenerationId(1, 1, 0): 2.5,
        GenerationId(1, 1, 1): None,
        GenerationId(1, 2, 0): 0.9,
        GenerationId(1, 3, 0): None,
    }
    assert fast_p(speedups, 4, 0.0) == 0.5
    assert fast_p(speedups, 4, 1.0) == fast_p(speedups, 4, 2.0) == 0.25
    assert fast_p(speedups, 4, 3.0) == 0.0
