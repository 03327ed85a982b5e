import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.errors import TaskError
from kernelwright.referee.sandbox import ORDER
from kernelwright.referee.session.confined import start_confined
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.inspect.run import find_device, inspect_candidate

KERNEL = "class ModelNew: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
FACTS = {
    "aot.registers": 64, "aot.spills": 3, "aot.shared_bytes": 1024, "aot.occupancy": 0.25,
    "aot.load_bytes": 4.0, "aot.occupancy_limit": "registers", "aot.instructions": 120,
    "gpu.waves": 2.0, "gpu.units": 132,
}  # fmt: skip
GOOD = KernelReport(
    kernel="row_kernel", outcome=KernelOutcome.SPILLS, constants={"BLOCK": "512", "F": "exp"}, num_warps=4,
    grid=(528, 2), launches=1, unaligned=("x_ptr",), facts=FACTS,
)  # fmt: skip
BAD = KernelReport(kernel="k", outcome=KernelOutcome.NOT_BUILT, detail="CompilationError: no", launches=1)
TRIAL = BAD.model_copy(update={"is_trial": True, "launches": 0})


class Stub:
    """Stands in for the compilers; notes what it was asked."""

    def __init__(self) -> None:
        self.kernels: tuple[KernelReport, ...] = (GOOD,)
        self.status, self.detail, self.log = InspectionStatus.INSPECTED, "", ""
        self.asked: list[dict[str, Any]] = []

    def __call__(self, source: str, gpu: GpuFacts, **asked: Any) -> Inspection:
        self.asked.append({"source": source, "gpu": gpu.name, **asked})
        return Inspection(
            architecture=gpu.architecture,
            device=gpu.name,
            status=self.status,
            detail=self.detail,
            kernels=self.kernels,
            log=self.log,
        )


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> Stub:
    stub = Stub()
    monkeypatch.setattr("kernelwright.api.inspecting.inspect_candidate", stub)
    return stub


@pytest.fixture
def kernel_file(tmp_path: Path) -> Path:
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    return file


Cli = Callable[..., Any]


def test_kernels_and_what_their_figures_mean(cli: Cli, compilers: Stub, kernel_file: Path) -> None:
    result = cli("inspect", kernel_file)
    assert result.code == 0
    assert (
        "sm_90 (h100-sxm): 1 kernel built, all can be launched, 1 of them with spilled registers"
        in result.out
    )
    for words in ("row_kernel(BLOCK=512)", "528 x 2", "25% (registers)", "1024 B", "spills"):
        assert words in result.out
    assert "row_kernel(BLOCK=512): 3 registers are spilled to memory" in result.out
    assert "alignment not known: x_ptr" in result.out
    assert "building" in result.err and "building" not in result.out


def test_a_kernel_that_is_not_built_decides_the_exit_code(
    cli: Cli, compilers: Stub, kernel_file: Path
) -> None:
    compilers.kernels = (GOOD, BAD)
    result = cli("inspect", kernel_file)
    assert result.code == 1
    assert "1 of 2 kernels cannot be built or launched" in result.out
    assert "k: CompilationError: no" in result.out
    compilers.kernels = (GOOD, TRIAL)
    assert cli("inspect", kernel_file).code == 0


def test_json_holds_facts_notes_and_the_verdict(cli: Cli, compilers: Stub, kernel_file: Path) -> None:
    compilers.kernels = (GOOD, BAD)
    result = cli("inspect", kernel_file, "--gpu", "sm_80", "--gpu", "mi300x", "--gpu", "sm_80", "--json")
    assert result.code == 1 and result.json["can_run"] is False
    first, second = result.json["inspections"]
    assert (first["architecture"], second["device"]) == ("sm_80", "mi300x")
    assert first["facts"]["aot.registers"] == 64 and first["facts"]["gpu.launches"] == 2
    assert len(first["kernels"][0]["notes"]) == 3 and first["kernels"][1]["notes"] == ["CompilationError: no"]


def test_a_candidate_that_raises_shows_its_last_words(cli: Cli, compilers: Stub, kernel_file: Path) -> None:
    compilers.status, compilers.detail = InspectionStatus.NOT_RUN, "ValueError: no (kernel.py:3)"
    compilers.kernels, compilers.log = (), "its words"
    result = cli("inspect", kernel_file)
    assert result.code == 1
    assert "not run: ValueError: no (kernel.py:3)" in result.out and "its words" in result.out


def test_the_task_gives_inputs_mode_and_sizes(
    cli: Cli, compilers: Stub, kernel_file: Path, task_file: Path
) -> None:
    assert cli("inspect", kernel_file, task_file, "--mode", "eval", "--workload", "s:batch_size=3").code == 0
    (asked,) = compilers.asked
    assert "batch_size = 3" in asked["task_source"] and asked["is_training"] is False


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--gpu", "sm_12"], "no such GPU: 'sm_12'"),
        (["--workload", "s:n=1"], "--workload rebinds globals of a task"),
        (["missing.py"], "missing.py: no such file"),
    ],
)
def test_what_cannot_be_asked(
    cli: Cli, compilers: Stub, kernel_file: Path, more: list[str], says: str
) -> None:
    result = cli("inspect", kernel_file, *more)
    assert result.code == 2 and says in result.err and compilers.asked == []


def test_a_kernel_without_inputs_needs_a_task(cli: Cli, compilers: Stub, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("class ModelNew: ...\n")
    result = cli("inspect", "bare.py")
    assert result.code == 2 and "defines no get_init_inputs and no get_inputs" in result.err


def test_the_tasks_fault_is_the_users(
    cli: Cli, compilers: Stub, kernel_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise TaskError("the task: get_inputs() raised")

    monkeypatch.setattr("kernelwright.api.inspecting.inspect_candidate", fail)
    assert cli("inspect", kernel_file).code == 2


LOOK = """
import json, os, sys
def tell(m): os.write(int(sys.argv[1]), json.dumps(m).encode() + b'\\n')
open('written', 'w').write('x')
asked = json.load(sys.stdin)['source']
tell({'key': 'a', 'report': {'kernel': str(os.path.exists(asked)), 'outcome': 'fits', 'launches': 1}})
tell({'ended': 'ran'})
"""


def test_the_process_is_confined_and_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)

    def start(command: Sequence[str], folder: str, answers: int, log: int) -> "subprocess.Popen[bytes]":
        return start_confined([sys.executable, "-S", "-c", LOOK, command[-1]], folder, answers, log)

    found = inspect_candidate(str(secret), find_device("sm_90"), start=start)
    assert found.status is InspectionStatus.INSPECTED, found.log
    assert found.sandbox in ORDER
    (kernel,) = found.kernels
    assert (kernel.kernel == "False") or found.sandbox != "namespaces"


STAY = """
import json, os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: time.sleep(1)
    os._exit(0)
os.write(int(sys.argv[1]), json.dumps({'ended': 'ran'}).encode() + b'\\n')
"""


def test_nothing_outlives_a_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)

    def start(command: Sequence[str], folder: str, answers: int, log: int) -> "subprocess.Popen[bytes]":
        stays = [sys.executable, "-S", "-c", STAY, command[-1], str(tmp_path)]
        return start_confined(stays, folder, answers, log)

    found = inspect_candidate("", find_device("sm_90"), start=start)
    assert found.status is InspectionStatus.NO_KERNELS, found.log
    if found.sandbox != "namespaces":
        pytest.skip("only a namespace of processes ends with its first one")
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in read(p)]


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


CUDA = '''
CUDA_SOURCE = r"""
extern "C" __global__ void scale(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] * 2.0f; }
"""
LAUNCHES = (
    {"name": "scale", "kernel": "scale", "grid": (4, 1, 1), "block": (256, 1, 1),
     "arguments": ("tensor", "tensor")},
)
'''


@pytest.fixture
def cuda_file(tmp_path: Path) -> Path:
    file = tmp_path / "cuda.py"
    file.write_text(CUDA)
    return file


def test_a_report_of_three_files(cli: Cli, compilers: Stub, kernel_file: Path, tmp_path: Path) -> None:
    compilers.kernels = (GOOD, BAD)
    result = cli("inspect", kernel_file, "--gpu", "sm_80", "--gpu", "sm_90", "--out", tmp_path / "new" / "o")
    assert result.code == 1
    kept = {file.name: file.read_text() for file in (tmp_path / "new" / "o").iterdir()}
    assert set(kept) == {"inspection.json", "inspection.md", "inspection.html"}
    document = json.loads(kept["inspection.json"])
    assert len(document["inspections"]) == 2 and document["can_run"] is False
    for name in ("inspection.md", "inspection.html"):
        assert "row_kernel(BLOCK=512)" in kept[name] and "CompilationError: no" in kept[name]
        assert "Not every kernel can be launched on sm_80, sm_90" in kept[name]


def test_a_folder_that_cannot_be_written_is_said_before_any_work(
    cli: Cli, compilers: Stub, kernel_file: Path
) -> None:
    result = cli("inspect", kernel_file, "--out", kernel_file / "o")
    assert result.code == 2 and "cannot write" in result.err and compilers.asked == []


@pytest.mark.slow
@pytest.mark.skipif(
    isinstance(find_cuda_compiler(), Absent) or find_cuda_compiler().kind != "nvcc",  # type: ignore[union-attr]
    reason="needs nvcc",
)
def test_cuda_is_recognised_and_compiled_in_the_sandbox(
    cli: Cli, compilers: Stub, cuda_file: Path, tmp_path: Path
) -> None:
    result = cli("inspect", cuda_file, "--gpu", "sm_90a", "--out", tmp_path / "o", "--json")
    assert result.code == 0, result.err
    (found,) = result.json["inspections"]
    assert (found["form"], found["architecture"], found["status"]) == ("cuda", "sm_90a", "inspected")
    assert found["sandbox"] in ORDER
    assert found["kernels"][0]["facts"]["aot.occupancy"] == 1.0
    assert "scale" in (tmp_path / "o" / "inspection.html").read_text()
    assert compilers.asked == []
    cuda_file.write_text(CUDA.replace("threadIdx.x] *", "nowhere] *"))
    refused = cli("inspect", cuda_file)
    assert refused.code == 1 and "not built" in refused.out and '"nowhere" is undefined' in refused.out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--gpu", "mi300x"], "compiled for GPUs of NVIDIA alone"),
        (["--workload", "s:n=1"], "sizes in CUDA C++ and HIP C++ are fixed"),
    ],
)
def test_what_cannot_be_asked_of_cuda(
    cli: Cli, compilers: Stub, cuda_file: Path, more: list[str], says: str
) -> None:
    result = cli("inspect", cuda_file, *more)
    assert result.code == 2 and says in result.err and len(result.err.strip().splitlines()) == 1


@pytest.mark.parametrize("source", [CUDA, CUDA.replace("CUDA_SOURCE", "HIP_SOURCE")])
def test_a_missing_compiler_is_one_line(
    cli: Cli, cuda_file: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cuda.aot.find_cuda_compiler", "hip.aot.find_hip_compiler"):
        monkeypatch.setattr(f"kernelwright.targets.{name}", lambda: Absent("install one"))
    cuda_file.write_text(source)
    result = cli("inspect", cuda_file)
    assert result.code == 2 and result.err.strip() == "error: install one" and result.out == ""
