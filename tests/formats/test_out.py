"""Tasks, kernels and verdicts in other formats: what we write can be read, validated and run."""

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.formats.samples import EXPERT, JUDGED, KERNEL, TASK

from kernelwright.api.submissions import run_submission
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Check, Evaluation, Stage, Status
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


VERDICT = Evaluation.model_validate_json(JUDGED)
SPEEDUP = VERDICT.told[0].speedups[0]
SAID = f"{SPEEDUP.ratio:.2f}x over eager [{SPEEDUP.low:.2f}, {SPEEDUP.high:.2f}]"


def verdict(status: Status = Status.VERIFIED) -> Evaluation:
    """Return the referee's verdict on the expert's kernel, or what it would be with another status."""
    if status is Status.VERIFIED:
        return VERDICT
    failed = {"status": status, "stage": Stage.VERIFY, "check": Check.ORACLE, "results": ()}
    return VERDICT.model_copy(update=failed)


def package(*statuses: Status) -> Package:
    verdicts = {f"k{i}": verdict(status) for i, status in enumerate(statuses)}
    return Package(OURS, dict.fromkeys(verdicts, EXPERT), verdicts)


def test_the_verdict_is_on_the_kernel_and_the_task_that_are_here() -> None:
    assert VERDICT.is_verified and VERDICT.task_id == OURS.id
    assert VERDICT.candidate_id == Candidate(source=EXPERT).id


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
    assert claims[0]["speedup"] == pytest.approx(SPEEDUP.ratio)


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


def test_verdicts_are_on_kernels_of_the_package() -> None:
    with pytest.raises(ValueError, match="a verdict on other"):
        Package(OURS, {"k": KERNEL}, {"other": verdict()})


def test_a_verdict_that_names_its_machine_says_so() -> None:
    judged = verdict().model_copy(update={"device": "box"})
    whole = Package(OURS, {"k": EXPERT}, {"k": judged}, device="cuda")
    written = write_flashinfer(whole)
    (traces,) = (text for name, text in written.files.items() if name.startswith("traces/"))
    places = [json.loads(line)["evaluation"]["environment"] for line in traces.splitlines()]
    assert {place["hardware"] for place in places} == {"box"}
    (one,) = (text for name, text in written.files.items() if name.startswith("solutions/"))
    assert json.loads(one)["spec"]["target_hardware"] == ["cuda"]
    assert not any("machine" in note for note in written.notes)
    assert f"{SAID}, on box" in write_hf_kernels(whole).files["README.md"]


@pytest.mark.parametrize("dtype", ["complex64", "float64", "uint8"])
def test_a_type_that_flashinfer_bench_lacks_is_refused(dtype: str) -> None:
    source = TASK.replace("dim=-1) * factor", f"dim=-1).to(torch.{dtype})")
    with pytest.raises(UserError, match=f"output is of type {dtype}, which FlashInfer-Bench lacks"):
        write_flashinfer(Package(parse_task(source, Path("t.py"))))


def test_a_type_that_differs_between_workloads_is_refused() -> None:
    source = TASK.replace("dim=-1) * factor", "dim=-1).to(torch.half if len(x) > 8 else torch.float)")
    with pytest.raises(UserError, match="differ in kind between workloads"):
        write_flashinfer(Package(parse_task(source, Path("t.py"))))


def test_kernels_that_would_be_one_solution_are_refused() -> None:
    with pytest.raises(UserError, match="another kernel's solution is called scaled_softmax__k_1 too"):
        write_flashinfer(Package(OURS, {"k-1": KERNEL, "k_1": KERNEL}))


def test_tasks_in_one_dataset_have_solutions_of_their_own_names() -> None:
    names = []
    for task in (OURS, OURS.model_copy(update={"name": "another"})):
        files = write_flashinfer(Package(task, {"fast": KERNEL})).files
        names += [json.loads(text)["name"] for name, text in files.items() if name.startswith("solutions/")]
    assert names == ["scaled_softmax__fast", "another__fast"]


CROWDED = """
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Parameter(torch.full((4,), 2.0))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Inner()
        self.a_b = nn.Parameter(torch.full((4,), 3.0))
        self.c = nn.Parameter(torch.full((4,), 5.0))

    def forward(self, output, state_c):
        return output * self.a.b + state_c * self.a_b + self.c


def get_inputs():
    return [torch.randn(2, 4), torch.randn(2, 4)]


def get_init_inputs():
    return []
"""


def test_inputs_outputs_and_state_that_are_called_alike_are_told_apart() -> None:
    written = write_flashinfer(Package(parse_task(CROWDED, Path("crowded.py"))))
    definition = json.loads(written.files["definitions/module/crowded.json"])
    assert set(definition["inputs"]) == {
        "output", "state_c", "state_a_b", "state_a_b_2", "state_c_2",
    }  # fmt: skip
    assert list(definition["outputs"]) == ["output_2"]
    space = ModuleType("reference")
    exec(definition["reference"], space.__dict__)
    given = {name: torch.randn(4) for name in definition["inputs"]}
    order = list(space.Model().state_dict())
    own = dict(zip(order, (given[name] for name in list(definition["inputs"])[2:]), strict=True))
    expected = given["output"] * own["a.b"] + given["state_c"] * own["a_b"] + own["c"]
    assert torch.allclose(space.run(**given), expected)


LOAD = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]), backend="cpu")
model = kernel.ModelNew(16)
print(tuple(model(torch.ones(8, 16), 2.0).shape))
"""


def test_a_hugging_face_repository_loads_through_their_library(tmp_path: Path) -> None:
    pytest.importorskip("kernels")
    save(write_hf_kernels(package(Status.VERIFIED)), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "(8, 16)", done.stderr


def test_a_hugging_face_repository_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(write_hf_kernels(package(Status.VERIFIED)), tmp_path)
    built = folder / "build" / "torch-cpu"
    metadata = json.loads((built / "metadata.json").read_text())
    assert metadata["id"].isidentifier() and metadata["name"] == "scaled-softmax"
    assert set(metadata["digest"]["files"]) == {
        "__init__.py", "kernel.py", "layers.py", "scaled_softmax/__init__.py",
    }  # fmt: skip
    assert "[torch-noarch]" in (folder / "build.toml").read_text()
    card = (folder / "README.md").read_text()
    assert f"{SAID}, on a machine that the verdict does not name" in card
    monkeypatch.syspath_prepend(str(built))
    assert importlib.import_module("scaled_softmax").ModelNew
    with pytest.raises(UserError, match="one kernel, not 2"):
        write_hf_kernels(package(Status.VERIFIED, Status.VERIFIED))


def test_a_hugging_face_repository_is_laid_out_for_their_builder() -> None:
    files = write_hf_kernels(package(Status.VERIFIED)).files
    build = tomllib.loads(files["build.toml"])
    assert set(build) == {"general", "torch-noarch"} and build["torch-noarch"] == {}
    general = build["general"]
    assert set(general) == {"name", "version", "edition", "license", "backends"}
    assert (general["version"], general["edition"]) == (1, 5)
    module = general["name"].replace("-", "_")
    assert f"torch-ext/{module}/__init__.py" in files
    assert [f"build/torch-{one}/metadata.json" in files for one in general["backends"]] == [True]
    assert set(general["backends"]) <= {"cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"}
    flake = files["flake.nix"]
    assert 'inputs.kernel-builder.url = "github:huggingface/kernels"' in flake
    assert "kernel-builder.lib.genKernelFlakeOutputs" in flake and "path = ./.;" in flake
    assert all(flake.count(left) == flake.count(right) for left, right in ("{}", "()"))


def test_only_a_verified_kernel_is_packed_as_verified() -> None:
    judged = write_hf_kernels(package(Status.VERIFIED)).files
    assert "A verified drop-in" in judged["torch-ext/scaled_softmax/__init__.py"]
    assert "The referee verified it" in judged["README.md"]
    for status in (Status.INCORRECT_NUMERICS, Status.REJECTED):
        with pytest.raises(UserError, match=f"k0: its verdict is {status}"):
            write_hf_kernels(package(status))


def test_a_kernel_without_a_verdict_is_packed_as_not_judged() -> None:
    files = write_hf_kernels(Package(OURS, {"k": KERNEL})).files
    assert "not judged" in files["torch-ext/scaled_softmax/__init__.py"]
    assert "not judged" in files["README.md"]
    own = [text for name, text in files.items() if not name.endswith("kernel.py")]
    assert not any("verified" in text for text in own)


@pytest.mark.parametrize(
    ("name", "taken"), [("Scaled_Softmax", "scaled-softmax"), ("19_ReLU", "t-19-relu"), ("ab", "ab")]
)
def test_a_hugging_face_name_is_made_of_the_tasks(name: str, taken: str) -> None:
    task = OURS.model_copy(update={"name": name})
    files = write_hf_kernels(Package(task, {"k": KERNEL})).files
    assert f'name = "{taken}"\n' in files["build.toml"]


@pytest.mark.parametrize("name", ["gr\u00f6\u00dfe", "a", "\u65e5\u672c", "relu\u00b2"])
def test_a_name_that_hugging_face_refuses_is_one_line(name: str) -> None:
    task = OURS.model_copy(update={"name": name})
    with pytest.raises(UserError, match="Hugging Face takes names") as caught:
        write_hf_kernels(Package(task, {"k": KERNEL}))
    assert "\n" not in str(caught.value)


def test_a_kernelbench_run_and_back(tmp_path: Path) -> None:
    keys = [GenerationId(1, 19, 0), GenerationId(1, 20, 0), GenerationId(1, 20, 1)]
    verdicts = dict(zip(keys, map(verdict, (Status.VERIFIED, Status.CRASHED, Status.VERIFIED)), strict=True))
    save(write_generations(dict.fromkeys(keys, EXPERT), verdicts), tmp_path)
    found = read_submission(tmp_path)
    assert list(found.kernels) == keys and set(found.kernels.values()) == {EXPERT}
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


def test_what_cannot_run_here_is_not_judged_and_refutes_nothing() -> None:
    def row(problem: int, sample: int, status: Status | None) -> JudgedGeneration:
        claim = BenchClaim(compiled=True, correctness=True, runtime=1.0)
        key = GenerationId(1, problem, sample)
        found = None if status is None else verdict(status)
        return JudgedGeneration(key, f"{problem}_x", {}, found, "too large", claim)

    rows = (
        row(1, 0, Status.COMPILE_ERROR),
        row(1, 1, Status.VERIFIED),
        row(2, 0, Status.RUNTIME_ERROR),
        row(3, 0, None),
    )
    result = SubmissionResult(rows, 4, "kernelwright submission", {})
    assert result.is_success and result.n_not_judged == 3
    assert result.n_problems_here == 2, "the first, and the fourth, which has no kernel"
    assert result.fast_p()[0] == (0.0, None, 1 / 2)
    said = [one.difference.partition(":")[0] for one in rows]
    assert said == ["not judged here", "", "not judged here", "too large"]
    assert "Not judged here: 3 of 4 kernels" in result.files()["submission.md"]


@pytest.mark.slow
def test_a_whole_run_is_judged(tmp_path: Path) -> None:
    problem = TASK.replace("WORKLOADS =", "OTHERS =")
    save(Converted({f"level1/{n}_Scaled.py": problem for n in (1, 2, 3)}), tmp_path / "problems")
    wrong = EXPERT.replace("* 2.0f;", "* 2.0f + 1e-3f;")
    keys = [GenerationId(1, 1, 0), GenerationId(1, 2, 0), GenerationId(1, 9, 0)]
    right = dict.fromkeys(keys, verdict())
    save(write_generations(dict(zip(keys, (EXPERT, wrong, EXPERT), strict=True)), right), tmp_path / "run")
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
    saved: list[int] = []
    part = run_submission(
        request.model_copy(update={"limit": 1}), on_result=lambda result: saved.append(len(result.rows))
    )
    assert (part.n_problems, part.fast_p()[0][1:], saved) == (1, (1.0, 1.0), [1])
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
