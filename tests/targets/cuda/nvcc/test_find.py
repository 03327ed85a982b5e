"""Where compilers are looked for, and what is said where there is none."""

import sys
from pathlib import Path

import pytest

from kernelwright.targets.cuda.nvcc import find
from kernelwright.targets.cuda.nvcc.build import compile_cubin, kernel_resources
from kernelwright.targets.cuda.nvcc.find import Absent, CudaCompiler, find_cuda_compiler, find_nvrtc
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt, Product

NVRTC = find_nvrtc()
needs_nvrtc = pytest.mark.skipif(NVRTC is None, reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")


def program(path: Path, words: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{words}'\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without CUDA, but for what a test puts into the folder."""
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setattr(find, "SYSTEM_HOME", str(tmp_path / "nothing"))
    return tmp_path


def test_a_machine_without_any_says_what_to_install(bare: Path) -> None:
    found = find_cuda_compiler()
    assert isinstance(found, Absent)
    assert "pip install nvidia-cuda-nvrtc" in found.reason and "\n" not in found.reason
    built = compile_cubin("", "sm_90", bare / "cache")
    assert isinstance(built, NotBuilt) and built.status is BuildStatus.NO_COMPILER
    assert built.message == found.reason


@pytest.mark.parametrize("place", ["home/bin/nvcc", "site/nvidia/cu13/bin/nvcc"])
def test_nvcc_is_found_in_a_home_and_among_the_wheels(place: str, bare: Path) -> None:
    path = program(bare / place, "Cuda compilation tools, release 13.0, V13.0.88")
    assert find_cuda_compiler() == CudaCompiler("nvcc", path, "13.0.88")


def test_nvcc_that_does_not_run_is_named_and_nvrtc_takes_its_place(bare: Path) -> None:
    broken = program(bare / "home/bin/nvcc", "no such luck", code=1)
    found = find_cuda_compiler()
    assert isinstance(found, Absent) and str(broken) in found.reason
    library = bare / "site/nvidia/cu13/lib/libnvrtc.so.13"
    for path in (library, library.with_name("libnvrtc-builtins.so.13.0")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert find_cuda_compiler() == CudaCompiler("nvrtc", library, "13.0")


@needs_nvrtc
def test_nvrtc_reports_what_nvcc_reports(tmp_path: Path) -> None:
    text = """template <class T> struct is { static constexpr int value = sizeof(T); };
    extern "C" __global__ void k(float* x) { __shared__ float s[64]; s[threadIdx.x] = x[threadIdx.x];
      __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x]; }"""
    built = compile_cubin(text, "sm_90", tmp_path, compiler=NVRTC)
    assert isinstance(built, Product), built
    found = kernel_resources(built)["k"]
    assert (found.static_shared_bytes, found.spills, found.barriers) == (256, 0, 1) and found.registers > 4
    assert built.path.read_bytes()[:4] == b"\x7fELF"
    refused = compile_cubin("__global__ void k() { x = 1; }", "sm_90", tmp_path, compiler=NVRTC)
    assert isinstance(refused, NotBuilt) and refused.status is BuildStatus.REFUSED
    assert 'kernel.cu(1): error: identifier "x" is undefined' in refused.message
    endless = "#define A(x) x x x x x x x x\n__global__ void k() { A(A(A(A(A(A(A(A(;)))))))) }"
    late = compile_cubin(endless, "sm_90", tmp_path, compiler=NVRTC, timeout_s=1)
    assert isinstance(late, NotBuilt) and late.status is BuildStatus.TIMED_OUT
