"""What ``doctor`` says of GPUs and their compilers: present, absent, or there by halves."""

import importlib.util
from pathlib import Path

import pytest

from kernelwright.targets.cuda.nvcc.find import Absent, CudaCompiler
from kernelwright.targets.gpu import doctor as doctor_gpu
from kernelwright.targets.gpu import driver_files as gpu_here
from kernelwright.targets.gpu import ptxas as ptxas_here
from kernelwright.targets.gpu.doctor import (
    check_cuda_compiler,
    check_gpu,
    check_gpu_peaks,
    check_hip_compiler,
    check_triton,
)
from kernelwright.targets.gpu.driver_files import GpuHere, find_gpus
from kernelwright.targets.gpu.facts import GPUS, MeasuredPeaks, with_measured
from kernelwright.targets.gpu.ptxas import find_triton_ptxas
from kernelwright.targets.hip.hipcc.find import HipCompiler

HERE = Path()


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without GPUs, whose programs and nodes a test may add."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(gpu_here, "NVIDIA_NODES", tmp_path / "dev")
    monkeypatch.setattr(gpu_here, "AMD_NODES", tmp_path / "nodes")
    return tmp_path


def test_no_gpu_is_an_answer(bare: Path) -> None:
    assert find_gpus() == ()
    check = check_gpu(HERE)
    assert (check.ok, check.is_required, check.value) == (False, False, "none")


def test_gpus_of_both_vendors_are_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "bin" / "nvidia-smi", "echo 'NVIDIA H200, 570.86.15'; echo 'NVIDIA H200, 570.86.15'")
    for number, version in enumerate((0, 90402, 90500)):
        (bare / "nodes" / str(number)).mkdir(parents=True)
        (bare / "nodes" / str(number) / "properties").write_text(f"a 1\ngfx_target_version {version}\n")
    h200 = GpuHere("NVIDIA H200", "570.86.15")
    assert find_gpus() == (h200, h200, GpuHere("AMD gfx942"), GpuHere("AMD gfx950"))
    monkeypatch.setattr("kernelwright.machine.probe.version_of", lambda name: "2.13.0+cpu")
    check = check_gpu(HERE)
    assert check.ok and check.value.startswith("2 x NVIDIA H200, driver 570.86.15; 1 x AMD gfx942")
    assert "built for the CPU" in check.advice


def test_peaks_are_published_ones_until_torch_sees_the_gpu(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_gpu, "has_gpu", lambda kind: False)
    assert check_gpu_peaks(HERE).value == "none"
    program(bare / "bin" / "nvidia-smi", "echo 'NVIDIA H200, 570.86.15'")
    check = check_gpu_peaks(HERE)
    assert (
        check.ok and check.value.startswith("h200-sxm: 4800 GB/s, fp32 67,") and "(published)" in check.value
    )
    slower = MeasuredPeaks(memory_bandwidth=4e12, source="measured 2026-11-21")
    monkeypatch.setattr(doctor_gpu, "has_gpu", lambda kind: kind == "cuda")
    monkeypatch.setattr(doctor_gpu, "gpu_here", lambda kind, cache: with_measured(GPUS["h200-sxm"], slower))
    assert check_gpu_peaks(HERE).value.startswith("h200-sxm: 4000 GB/s")
    assert "(measured 2026-11-21)" in check_gpu_peaks(HERE).value


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'"])
def test_a_tool_that_fails_leaves_the_nodes(bare: Path, script: str) -> None:
    program(bare / "bin" / "nvidia-smi", script)
    (bare / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (bare / "dev" / name).touch()
    assert find_gpus() == (GpuHere("NVIDIA (nvidia0)"),)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_tritons_own_assembler_is_asked_for_its_version() -> None:
    assert any(words.startswith("ptxas ") and words[6].isdigit() for words in find_triton_ptxas())
    check = check_triton(HERE)
    assert check.ok and "ptxas" in check.value and check.advice == ""


def test_a_triton_without_an_assembler_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "triton" / "backends/nvidia/bin/ptxas", "exit 1")
    (tmp_path / "triton" / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location(
        "triton", tmp_path / "triton" / "__init__.py", submodule_search_locations=[str(tmp_path / "triton")]
    )
    monkeypatch.setattr(ptxas_here.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr("kernelwright.machine.probe.version_of", lambda name: "3.0.0")
    check = check_triton(HERE)
    assert check.ok and check.value == "3.0.0, no ptxas in it" and check.advice
    monkeypatch.setattr("kernelwright.machine.probe.version_of", lambda name: None)
    assert check_triton(HERE).value == "none"


def test_compilers_are_named_or_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_gpu, "find_cuda_compiler", lambda: CudaCompiler("nvcc", HERE / "nvcc", "13.0"))
    monkeypatch.setattr(doctor_gpu, "find_hip_compiler", lambda: HipCompiler("clang", HERE / "clang", "19.1"))
    cuda, hip = check_cuda_compiler(HERE), check_hip_compiler(HERE)
    assert (cuda.value, cuda.advice) == ("nvcc-13.0 (nvcc)", "")
    assert hip.value == "clang-19.1 (clang)" and "without ROCm" in hip.advice
    for name, check in (("cuda", check_cuda_compiler), ("hip", check_hip_compiler)):
        monkeypatch.setattr(doctor_gpu, f"find_{name}_compiler", lambda: Absent("install one"))
        absent = check(HERE)
        assert (absent.ok, absent.is_required, absent.value) == (False, False, "none")
        assert absent.advice.endswith("install one")
