"""CUDA C++ of our form on its way to a verdict: a real nvcc, in the sandbox, in real workers.

Without a GPU the launches are asked for and refused by CUDA's runtime, and torch computes in their place; on
one, the kernel does.
"""

import ctypes
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.targets.cuda.candidates import render_cuda_candidate

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import Check, Evaluation, Status
from kernelwright.core.task import Task
from kernelwright.machine.compiler import run_here
from kernelwright.referee.checks.library_use import ghost_library
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import RefereeSettings
from kernelwright.targets.base import BuildSite
from kernelwright.targets.cuda.build import build_cuda
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt
from kernelwright.targets.gpu.facts import GPUS
from kernelwright.targets.gpu.inspect.ahead import Ways, look_ahead

N = 1000
TASK = f"""
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn({N})]

def get_init_inputs():
    return []
"""
KERNEL = """
extern "C" __global__ void scale(const float* x, float* y, float by, long long n) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
"""
WARPGROUP = """
extern "C" __global__ void fence(float* x) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  x[threadIdx.x] = 1.0f;
}
"""
LAUNCH: dict[str, Any] = {
    "name": "scale", "kernel": "scale", "grid": (4, 1, 1), "block": (256, 1, 1),
    "arguments": ("tensor", "tensor", "float32", "int64"),
}  # fmt: skip
MODEL = """
class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        _launch["scale"](x, y, 2.0, x.numel())
        return y
"""
WITHOUT_DEVICE = """
class ModelNew(nn.Module):
    def forward(self, x):
        assert _library._name.startswith(os.environ["KERNELWRIGHT_BUILD_CACHE"])
        try:
            _launch["scale"](x, torch.empty_like(x), 2.0, x.numel())
        except RuntimeError as error:
            assert "CUDA error" in str(error)
        return x * 2
"""


def needs_nvcc() -> None:
    compiler = find_cuda_compiler()
    if isinstance(compiler, Absent) or compiler.kind != "nvcc":
        pytest.skip("needs nvcc")


@pytest.fixture(scope="module", params=["copied", pytest.param("cuda", marks=pytest.mark.gpu)])
def referee(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    device = str(request.param)
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU that torch can use")
    needs_nvcc()
    settings = RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"), search_timing_s=0.05, device=device,
        device_architecture="sm_90a" if device == "copied" else None,
    )  # fmt: skip
    with Referee(settings) as referee:
        yield referee


@pytest.fixture(scope="module")
def session(referee: Referee) -> Iterator[RefereeSession]:
    with referee.open(Task(name="scale", source=TASK)) as session:
        yield session


def judge(session: RefereeSession, kernel: str = KERNEL, **launch: Any) -> Evaluation:
    is_real = torch.cuda.is_available()
    source = render_cuda_candidate(kernel, [LAUNCH | launch], MODEL if is_real else WITHOUT_DEVICE)
    if not is_real:  # what it asks a GPU, answered
        source = source.replace("torch.cuda.get_device_capability()", "(9, 0)")
        source = source.replace("torch.cuda.current_stream().cuda_stream", "0")
    return session.evaluate(Candidate(source=source))


@pytest.mark.slow
def test_it_is_built_once_by_the_parent_and_judged(referee: Referee, session: RefereeSession) -> None:
    first, again = judge(session), judge(session)
    assert first.is_verified and again.is_verified, (first.detail, first.log)
    folder = referee.settings.cache_dir / "build"
    assert len(list(folder.glob("nvcc-*/*/*.so"))) == 1
    assert again.phases_s["build"] < first.phases_s["build"]


def test_its_ghost_has_the_same_launches_and_does_nothing(referee: Referee, session: RefereeSession) -> None:
    judge(session)
    (library,) = (referee.settings.cache_dir / "build").glob("nvcc-*/*/*.so")
    ghost = ghost_library(library)
    assert ghost is not None and ghost.name == library.name
    assert ctypes.CDLL(str(ghost)).launch_scale(None, None, None) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"kernel": KERNEL.replace("by;", "b;")}, "identifier", id="does not compile"),
        pytest.param({"arguments": ("tensor",)}, "does not take", id="launched with other arguments"),
        pytest.param({"block": (0, 1, 1)}, "is no size", id="a launch that cannot be"),
        pytest.param({"kernel": '#include "/etc/passwd"\n' + KERNEL}, "/etc/passwd", id="reads a file"),
    ],
)
def test_a_source_that_cannot_be_built_is_a_status(
    session: RefereeSession, change: dict[str, Any], words: str
) -> None:
    found = judge(session, **change)
    assert (found.status, found.check) == (Status.COMPILE_ERROR, Check.BUILD)
    assert words in found.detail + found.log


def test_without_a_compiler_it_is_the_machine_that_fails(
    session: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Absent("no CUDA compiler; install one")
    monkeypatch.setattr("kernelwright.targets.cuda.nvcc.build.find_cuda_compiler", lambda: absent)
    with pytest.raises(MachineError, match="CUDA C\\+\\+ cannot be built here: no CUDA compiler"):
        judge(session)


def test_what_is_built_ahead_is_what_the_referee_builds(tmp_path: Path) -> None:
    needs_nvcc()
    launch = LAUNCH | {"name": "fence", "kernel": "fence", "block": (128, 1, 1), "arguments": ("tensor",)}
    source = render_cuda_candidate(WARPGROUP, [launch], "class ModelNew(nn.Module): ...")
    compiling = SimpleNamespace(run=run_here, sandbox="none")
    ways = Ways(tmp_path, compiling=lambda: nullcontext(compiling))
    seen = look_ahead(source, GPUS["h100-sxm"], task_source="", is_training=False, ways=ways)
    assert seen.problem == "" and "sm_90a" in seen.note, seen
    built = build_cuda(source, BuildSite(tmp_path, 120.0, architecture=GPUS["h100-sxm"].architecture))
    assert built is not None and built.error is None and built.library is not None, built


@pytest.mark.parametrize("text", [repr("__global__ void k() {}"), "'__global__ ' + made()"])
def test_sources_of_load_inline_are_left_to_it_whatever_their_name(text: str, tmp_path: Path) -> None:
    source = f"CUDA_SOURCE = {text}\nmodule = load_inline('m', cpp_sources='', cuda_sources=CUDA_SOURCE)\n"
    site = BuildSite(tmp_path, 60.0, architecture="sm_90a")
    assert build_cuda(source, site) is None
    ours = f"CUDA_SOURCE = {text}\n"
    built = build_cuda(ours, site)
    assert built is not None and built.error


def test_a_compiler_that_does_not_end_in_time_is_a_timeout(
    session: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = NotBuilt(BuildStatus.TIMED_OUT, "the compiler ran past 60 s and was killed")
    monkeypatch.setattr("kernelwright.targets.cuda.build.compile_cubin", lambda *_, **__: late)
    found = judge(session)
    assert (found.status, found.check, found.detail) == (Status.TIMEOUT, Check.LIMITS, late.message)
