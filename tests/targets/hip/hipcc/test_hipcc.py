"""HIP C++ compiled for AMD's GPUs where a compiler is, and a plain word where none is."""

from pathlib import Path

import pytest

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import METRICS
from kernelwright.targets.cuda.nvcc.find import Absent
from kernelwright.targets.cuda.nvcc.form import CudaSource
from kernelwright.targets.cuda.nvcc.outcome import AheadReport, BuildStatus
from kernelwright.targets.hip.hipcc import find
from kernelwright.targets.hip.hipcc.find import HipCompiler, find_hip_compiler
from kernelwright.targets.hip.hipcc.report import read_hip_source, report_hip, report_hip_candidate

needs_compiler = pytest.mark.skipif(
    isinstance(find_hip_compiler(), Absent), reason="needs hipcc, or a clang with AMD's back end"
)
CANDIDATE = '''
HIP_SOURCE = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(256) row_sum(const float4* x, float* y, int n) {
  __shared__ float parts[4];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float4 v = x[blockIdx.x * n + i];
    sum += expf(v.x) + v.y + v.z + v.w;
  }
  for (int by = 32; by > 0; by /= 2) sum += __shfl_down(sum, by);
  if (threadIdx.x % 64 == 0) parts[threadIdx.x / 64] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}
"""
LAUNCHES = (
    {"name": "sum", "kernel": "row_sum", "grid": (64, 1, 1), "block": (256, 1, 1),
     "arguments": ("tensor", "tensor", "int32")},
    {"name": "greedy", "kernel": "row_sum", "grid": (64, 1, 1), "block": (256, 1, 1),
     "shared_bytes": 70000, "arguments": ("tensor", "tensor", "int32")},
)
'''


def form(old: str = "", new: str = "") -> CudaSource:
    found = read_hip_source(CANDIDATE.replace(old, new) if old else CANDIDATE)
    assert isinstance(found, CudaSource)
    return found


def report(cache: Path, old: str = "", new: str = "") -> AheadReport:
    return report_hip(form(old, new), "gfx942", cache)


def test_a_machine_without_a_compiler_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(find, "SYSTEM_HOME", str(tmp_path))
    for name in ("ROCM_PATH", "HIP_CLANG_PATH"):
        monkeypatch.delenv(name, raising=False)
    found = report(tmp_path)
    assert found.status is BuildStatus.NO_COMPILER
    assert "install ROCm" in found.message and "\n" not in found.message


def test_a_clang_without_amds_back_end_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clang = tmp_path / "clang++"
    clang.write_text("#!/bin/sh\necho 'clang version 19.1.7'\n", encoding="utf-8")
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(find, "SYSTEM_HOME", "/nonexistent")
    monkeypatch.setenv("HIP_CLANG_PATH", str(tmp_path))
    assert isinstance(find_hip_compiler(), Absent)
    clang.write_text("#!/bin/sh\necho 'clang version 19.1.7 amdgcn'\n", encoding="utf-8")
    find._probe.cache_clear()
    assert find_hip_compiler() == HipCompiler("clang", clang, "19.1.7")


def test_architectures_of_others_are_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no architecture of AMD"):
        report_hip(form(), "sm_90", tmp_path)


def test_candidates_without_hip_are_none_and_unusable_ones_are_named(tmp_path: Path) -> None:
    assert report_hip_candidate("x = 1", "gfx942", tmp_path) is None
    found = report_hip_candidate("HIP_SOURCE = make()", "gfx942", tmp_path)
    assert found is not None and found.status is BuildStatus.NOT_THE_FORM and "HIP_SOURCE" in found.message


@needs_compiler
def test_kernels_are_known_without_a_device(tmp_path: Path) -> None:
    found = report(tmp_path)
    assert found.status is BuildStatus.BUILT, found
    facts = found.launches[0].facts
    assert facts.keys() <= METRICS.keys()
    assert (facts["aot.shared_bytes"], facts["aot.spills"], facts["aot.load_bytes"]) == (16, 0, 16)
    assert facts["aot.shuffles"] == 6 and facts["aot.barriers"] == 1 and facts["aot.occupancy"] == 1.0
    none_fits = [one.launch for one in found.launches if one.facts["aot.resident_blocks"] == 0]
    assert none_fits == ["greedy"]


@needs_compiler
def test_source_that_is_wrong_is_answered_in_the_compilers_words(tmp_path: Path) -> None:
    found = report(tmp_path, "float sum = 0.0f;", "float sum = ;")
    assert found.status is BuildStatus.REFUSED
    assert "kernel.cu:5:15: error: expected expression" in found.message
    mismatch = report(tmp_path, '"int32"', '"float32"')
    assert mismatch.status is BuildStatus.REFUSED and "row_sum does not take" in mismatch.message


@needs_compiler
def test_names_that_only_rocm_knows_say_nothing_of_the_candidate(tmp_path: Path) -> None:
    compiler = find_hip_compiler()
    assert isinstance(compiler, HipCompiler)
    if compiler.kind == "hipcc":
        pytest.skip("ROCm is here")
    found = report(tmp_path, "expf(v.x)", "lgammaf(v.x)")
    assert found.status is BuildStatus.NEEDS_HEADERS and "lgammaf" in found.message
