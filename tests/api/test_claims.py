"""Published kernels beside what was claimed of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.samples import flashinfer_dataset
from tests.places import settings_in

from kernelwright.api.claims import run_claims
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Status
from kernelwright.core.request import ClaimsRequest
from kernelwright.core.task import Task
from kernelwright.formats.claims import PublishedClaim, read_claims
from kernelwright.formats.flashinfer_in import read_flashinfer
from kernelwright.formats.kernelbench import read_kernelbench
from kernelwright.report.claims import ClaimsResult, JudgedClaim
from kernelwright.testing.fake_run import fake_evaluation

TASK = """
import torch

N = 4096


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2


def get_inputs():
    return [torch.randn(64, N)]


def get_init_inputs():
    return []
"""
SAME = TASK.replace("class Model(", "class ModelNew(")
TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, i < n) * 2, i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(x.numel() // 256,)](x, y, x.numel(), B=256)
        return y
"""


def folder_with(tmp_path: Path, claims: Any, **files: str) -> Path:
    for name, text in {"task": TASK, **files}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "claims.json").write_text(claims if isinstance(claims, str) else json.dumps(claims))
    return tmp_path


@pytest.mark.slow
def test_right_wrong_and_gpu_kernels_in_one_table(tmp_path: Path) -> None:
    claims = [
        {"task": "task.py", "kernel": "same.py", "speedup": 50.0, "hardware": "A100", "sizes": {"N": 1024}},
        {"task": "task.py", "kernel": "wrong.py", "name": "off by a bit", "correct": True},
        {"task": "task.py", "kernel": "gpu.py", "speedup": 3.0},
        {"task": "task.py", "kernel": "bomb.py"},
    ]
    folder = folder_with(
        tmp_path,
        claims,
        same=SAME,
        wrong=SAME.replace("* 2", "* 2.001"),
        gpu=TRITON,
        bomb="import triton\nx = " + "-" * 100_000 + "1",
    )
    result = run_on(folder, tmp_path)
    same, wrong, gpu, bomb = result.rows
    assert same.evaluation is not None and same.evaluation.status is Status.VERIFIED
    assert same.meaning == "correct; slower here than claimed; claimed for A100"
    assert wrong.is_refuted and not result.is_success
    assert gpu.evaluation is None and "needs a GPU" in gpu.meaning and "sm_90" in gpu.meaning
    assert bomb.evaluation is not None and bomb.evaluation.status is Status.PARSE_ERROR
    assert bomb.meaning.startswith("cannot be run here: not Python: ")
    assert "2 of 4 could be judged here; 1 refuted" in result.files()["claims-judged.md"]


BARE = """
#include <torch/extension.h>

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] * 2;
}

torch::Tensor run_twice(torch::Tensor x PLUS) {
    auto y = torch::empty_like(x);
    twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""


def run_on(folder: Path, tmp_path: Path) -> ClaimsResult:
    return run_claims(ClaimsRequest(folder=str(folder), out=None), settings=settings_in(tmp_path))


def test_bare_kernels_are_inspected_and_never_refuted_for_not_being_python(tmp_path: Path) -> None:
    claims = [
        {"task": "task.py", "kernel": "k.cu"},
        {"task": "task.py", "kernel": "k.hip"},
        {"kernel": "k.cu", "name": "no task"},
    ]
    folder = folder_with(tmp_path, claims)
    for name in ("k.cu", "k.hip"):
        (folder / name).write_text(BARE.replace("PLUS", ""))
    result = run_on(folder, tmp_path)
    cuda, hip, no_task = result.rows
    assert result.is_success and not any(row.is_judged for row in result.rows)
    assert "cannot be run here: needs a GPU" in cuda.meaning and cuda.call == "run_twice(inputs of the task)"
    assert "cannot be run here: HIP C++ in a file of its own" in hip.meaning
    assert "cannot be run here" in no_task.meaning
    if cuda.inspected:  # there is a compiler
        assert cuda.inspected == no_task.inspected == "inspected for sm_90: 1 of 1 kernels can be launched"
    else:
        assert "was not inspected" in cuda.meaning


@pytest.mark.slow
def test_what_convert_import_writes_is_judged(tmp_path: Path) -> None:
    for name, text in read_flashinfer(flashinfer_dataset(tmp_path / "theirs")).files.items():
        (tmp_path / name).write_text(text)
    (row,) = run_on(tmp_path, tmp_path).rows
    assert row.claim.sizes == {"batch": 4, "eps_value": 1e-6} and row.is_judged and not row.is_refuted


def test_claims_of_a_kernelbench_run_say_that_they_name_no_task(tmp_path: Path) -> None:
    result = {"sample_id": 0, "compiled": True, "correctness": True, "runtime": 1.0}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "level_1_problem_19_sample_0_kernel.py").write_text(SAME)
    (tmp_path / "run" / "eval_results.json").write_text(json.dumps({"19": result}))
    for name, text in read_kernelbench(tmp_path / "run").files.items():
        (tmp_path / name).write_text(text)
    (row,) = run_on(tmp_path, tmp_path).rows
    assert row.meaning.startswith("cannot be run here: the claim names no task")


@pytest.mark.parametrize(
    ("status", "refuted"),
    [
        (Status.PARSE_ERROR, False), (Status.COMPILE_ERROR, False), (Status.LOAD_ERROR, False),
        (Status.RUNTIME_ERROR, False), (Status.CRASHED, False), (Status.TIMEOUT, False),
        (Status.INCORRECT_NUMERICS, True), (Status.MUTATED_INPUT, True), (Status.REJECTED, True),
    ],
)  # fmt: skip
def test_only_what_was_measured_refutes(status: Status, refuted: bool) -> None:
    claim = PublishedClaim(task="t.py", kernel="k.py")
    row = JudgedClaim(claim, fake_evaluation(Candidate(source="k"), Task(name="t", source="x"), status))
    assert row.is_refuted is refuted
    assert row.meaning.startswith("refuted: " if refuted else "cannot be run here: ")


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ("{", "no JSON"),
        ([], "holds no claims"),
        ({"task": "task.py"}, "docs/formats.md has its form"),
        ([{"task": "task.py"}], "0.kernel"),
        ([{"task": "task.py", "kernel": "nowhere.py"}], "nowhere.py is no file in"),
        ([{"task": "../task.py", "kernel": "task.py"}], "is no file in"),
        ([{"task": "task.py", "kernel": "task.py", "speedup": -1}], "0.speedup"),
        ([{"task": "task.py", "kernel": "task.py", "spedup": 2}], "0.spedup"),
    ],
)
def test_what_is_no_folder_of_claims_is_said_in_one_line(tmp_path: Path, claims: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as raised:
        read_claims(folder_with(tmp_path, claims))
    assert "\n" not in str(raised.value)


def test_a_folder_without_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"claims\.json: cannot be read"):
        read_claims(tmp_path)


@pytest.mark.parametrize(
    ("claimed", "meaning"),
    [
        ({"speedup": 2.0}, "holds here"),
        ({"speedup": 4.0}, "correct; slower here than claimed"),
        ({"speedup": 1.1}, "correct; faster here than claimed"),
        ({}, "correct, as claimed"),
        ({"speedup": 2.0, "over": "cuDNN"}, "correct; not compared with cuDNN here"),
        ({"correct": False}, "claimed wrong; every check passed here"),
    ],
)
def test_a_verdict_says_what_to_make_of_a_claim(claimed: dict[str, Any], meaning: str) -> None:
    claim = PublishedClaim(task="t.py", kernel="k.py", **claimed)
    evaluation = fake_evaluation(Candidate(source="k"), Task(name="t", source="x"), 2.0)
    assert JudgedClaim(claim, evaluation).meaning == meaning
