"""CUDA C++ built for real, with no device: machine code, resources, launchers, and refusals as data."""

import ctypes
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import METRICS
from kernelwright.machine.compiler import Ran
from kernelwright.targets.cuda.nvcc.build import compile_cubin, compile_shared, kernel_resources
from kernelwright.targets.cuda.nvcc.find import (
    Absent,
    CudaCompiler,
    find_cuda_compiler,
    find_cuobjdump,
    find_nvrtc,
)
from kernelwright.targets.cuda.nvcc.form import CudaSource, Launch
from kernelwright.targets.cuda.nvcc.launcher import build_launcher, launcher_architecture
from kernelwright.targets.cuda.nvcc.outcome import AheadReport, BuildStatus, NotBuilt, Product
from kernelwright.targets.cuda.nvcc.report import report_cuda

COMPILER = find_cuda_compiler()
needs_nvcc = pytest.mark.skipif(isinstance(COMPILER, Absent) or COMPILER.kind != "nvcc", reason="needs nvcc")
HERE = {c.kind: c for c in (find_nvrtc(), COMPILER) if isinstance(c, CudaCompiler)}
each_compiler = pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(
            HERE.get(kind), id=kind, marks=pytest.mark.skipif(kind not in HERE, reason=f"needs {kind}")
        )
        for kind in ("nvcc", "nvrtc")
    ],
)
"""For what ends in machine code: nvcc, and NVRTC, which comes with the ``dev`` extra."""

SCALE = """
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float by, int n) {
  extern __shared__ float tile[];
  __shared__ float first[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.0f;
  if (threadIdx.x < 32) first[threadIdx.x] = by;
  __syncthreads();
  if (i < n) y[i] = tile[threadIdx.x ^ 1] * first[threadIdx.x & 31];
}
"""
SPILLS = """
extern "C" __global__ void spills(const float* x, float* y) {
  float held[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) held[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) y[(95 - i) * 1024 + threadIdx.x] = held[i] * held[(i * 37) % 96];
}
"""
ENDLESS = "template <int N> struct A { static const int v = A<N - 1>::v + A<N - 2>::v; };\n" + "\n".join(
    f"#define M{n}(x) M{n - 1}(x x x x x x x x)" for n in range(1, 9)
).join(("#define M0(x) x\n", "\n__global__ void k() { M8(;) }"))


def launch(**changes: object) -> Launch:
    given = {
        "name": "scale",
        "kernel": "scale",
        "grid": (4, 1, 1),
        "block": (256, 1, 1),
        "shared_bytes": 1024,
        "arguments": ("tensor", "tensor", "float32", "int32"),
    }
    return Launch.model_validate(given | changes)


def form(text: str = SCALE, *launches: Launch, **more: object) -> CudaSource:
    return CudaSource.model_validate({"text": text, "launches": launches or (launch(),), **more})


def built(report: AheadReport) -> dict[str, object]:
    assert report.status is BuildStatus.BUILT, report
    return dict(report.launches[0].facts)


@each_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_kernels_of_the_generations_are_known_without_a_device(
    architecture: str, tmp_path: Path, compiler: CudaCompiler
) -> None:
    facts = built(report_cuda(form(), architecture, tmp_path, compiler=compiler))
    assert facts.keys() <= METRICS.keys()
    assert facts["aot.spills"] == 0 and facts["aot.shared_bytes"] == 128 + 1024
    assert facts["aot.block_threads"] == 256 and facts["aot.occupancy"] == 1.0
    assert isinstance(facts["aot.registers"], int) and 4 < facts["aot.registers"] < 64
    if find_cuobjdump() is not None:
        assert facts["aot.load_bytes"] == 4 and facts["aot.barriers"] == 1


@needs_nvcc
def test_headers_of_the_toolkit_are_there(tmp_path: Path) -> None:
    assert built(report_cuda(form("#include <cuda_fp16.h>\n" + SCALE), "sm_90", tmp_path))["aot.spills"] == 0


@each_compiler
def test_one_kernel_that_spills_and_launches_that_do_not_fit(tmp_path: Path, compiler: CudaCompiler) -> None:
    small = launch(name="small", kernel="spills", arguments=("tensor", "tensor"))
    launches = (
        small,
        small.model_copy(update={"name": "wide", "block": (2048, 1, 1)}),
        small.model_copy(update={"name": "greedy", "shared_bytes": 240 << 10}),
    )
    report = report_cuda(
        form(SPILLS, *launches, flags=("-O3", "-maxrregcount=32")), "sm_90", tmp_path, compiler=compiler
    )
    assert built(report)
    assert all(one.facts["aot.spills"] for one in report.launches)
    none_fits = [one.launch for one in report.launches if one.facts.get("aot.resident_blocks") == 0]
    assert none_fits == ["wide", "greedy"]


@each_compiler
def test_a_build_is_found_again_by_its_content(tmp_path: Path, compiler: CudaCompiler) -> None:
    text = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 1; }'
    first, again = (compile_cubin(text, "sm_90", tmp_path, compiler=compiler) for _ in range(2))
    assert isinstance(first, Product) and isinstance(again, Product)
    assert (first.cached, again.cached) == (False, True)
    assert first.path == again.path and kernel_resources(first) == kernel_resources(again) != {}
    assert first.path.parent.parent.name == first.compiler and not list(tmp_path.glob("*/build-*"))


@needs_nvcc
def test_the_launcher_loads_without_torch_and_without_a_driver(tmp_path: Path) -> None:
    large = launch(name="large", shared_bytes=64 << 10)
    made = build_launcher(form(SCALE, launch(), large), "sm_90", tmp_path)
    assert isinstance(made, Product), made
    library = ctypes.CDLL(str(made.path))
    nothing = ctypes.c_void_p()
    for name in ("launch_scale", "launch_large"):
        status = getattr(library, name)(nothing, nothing, nothing, ctypes.c_float(2), ctypes.c_int(0))
        assert os.path.exists("/dev/nvidia0") or status in (35, 100)  # driver insufficient, or no device
    assert kernel_resources(made)["scale"].static_shared_bytes == 128


@each_compiler
def test_source_that_is_wrong_is_answered_in_the_compilers_words(
    tmp_path: Path, compiler: CudaCompiler
) -> None:
    report = report_cuda(
        form("\n\n" + SCALE.replace("tile[threadIdx.x] =", "tiles =")), "sm_90", tmp_path, compiler=compiler
    )
    assert report.status is BuildStatus.REFUSED and report.launches == ()
    assert "kernel.cu(8): error" in report.message and '"tiles" is undefined' in report.message
    assert report.message in report.log
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@each_compiler
@pytest.mark.parametrize(
    "arguments", [("tensor", "tensor", "int32"), ("tensor", "tensor", "int32", "float32")]
)
def test_launches_that_give_a_kernel_something_else_do_not_compile(
    arguments: tuple[str, ...], tmp_path: Path, compiler: CudaCompiler
) -> None:
    report = report_cuda(form(SCALE, launch(arguments=arguments)), "sm_90", tmp_path, compiler=compiler)
    assert report.status is BuildStatus.REFUSED and "scale does not take (tensor, tensor, " in report.message


@each_compiler
def test_kernels_must_be_found_by_their_name(tmp_path: Path, compiler: CudaCompiler) -> None:
    report = report_cuda(form(SCALE.replace('extern "C" ', "")), "sm_90", tmp_path, compiler=compiler)
    assert report.status is BuildStatus.NOT_THE_FORM and 'extern "C"' in report.message
    assert "_Z5scale" in report.message


@each_compiler
def test_source_without_end_is_killed_with_what_the_compiler_started(
    tmp_path: Path, compiler: CudaCompiler
) -> None:
    started = time.monotonic()
    found = compile_cubin(ENDLESS, "sm_90", tmp_path, timeout_s=1.0, compiler=compiler)
    assert isinstance(found, NotBuilt) and found.status is BuildStatus.TIMED_OUT
    assert time.monotonic() - started < 60
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    assert not any(str(tmp_path).encode() in command for command in commands)


@each_compiler
def test_architectures_that_the_compiler_lacks_are_no_fault_of_the_source(
    tmp_path: Path, compiler: CudaCompiler
) -> None:
    found = compile_cubin("__global__ void k() {}", "sm_60", tmp_path, compiler=compiler)
    assert (
        isinstance(found, NotBuilt) and found.status is BuildStatus.NO_COMPILER and "sm_60" in found.message
    )


@pytest.mark.skipif("nvrtc" not in HERE, reason="needs nvrtc")
@pytest.mark.parametrize("header", ["cuda_runtime.h", "cuda_fp16.h"])
def test_headers_that_nvrtc_lacks_are_no_fault_of_the_source(header: str, tmp_path: Path) -> None:
    report = report_cuda(form(f"#include <{header}>\n{SCALE}"), "sm_90", tmp_path, compiler=HERE["nvrtc"])
    assert report.status is BuildStatus.NEEDS_HEADERS and header in report.message


@each_compiler
@pytest.mark.parametrize(
    "words", ["Unsupported gpu architecture", "nvrtc: error: invalid value for --gpu-architecture (-arch)"]
)
def test_a_source_that_speaks_like_a_broken_compiler_is_wrong_itself(
    words: str, tmp_path: Path, compiler: CudaCompiler
) -> None:
    found = compile_cubin(f"#error {words}\n", "sm_90", tmp_path, compiler=compiler)
    assert isinstance(found, NotBuilt) and found.status is BuildStatus.REFUSED, found
    assert words in found.log


def test_what_a_source_can_say_of_the_host_compiler_is_checked_with_an_empty_one(tmp_path: Path) -> None:
    words = "sh: 1: g++: not found\n"

    def run(command: Sequence[str], folder: Path, timeout_s: float) -> Ran:
        if "__GNUC__" in (folder / "kernel.cpp").read_text():
            return Ran(1, words)
        assert not any(word.startswith("-D") for word in command)
        (folder / "kernel.so").touch()
        return Ran(0, "")

    nvcc = CudaCompiler("nvcc", tmp_path / "never", "0")
    flags = ("-D__GNUC__=99",)
    found = compile_cubin("// __GNUC__", "sm_90", tmp_path, flags=flags, run=run, compiler=nvcc)
    assert isinstance(found, NotBuilt) and found.status is BuildStatus.REFUSED
    broken = compile_cubin("", "sm_90", tmp_path / "other", run=lambda *_: Ran(1, words), compiler=nvcc)
    assert isinstance(broken, NotBuilt) and broken.status is BuildStatus.NO_COMPILER


@needs_nvcc
def test_an_nvcc_without_a_host_compiler_is_no_fault_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(COMPILER, CudaCompiler)
    shell = tmp_path / "sh"
    shell.symlink_to("/bin/sh")
    places = (COMPILER.path, Path("/usr/local/cuda/bin/nvcc"))
    real = next((p for p in places if p.read_bytes()[:4] == b"\x7fELF"), None)
    if real is None:
        pytest.skip("nvcc is a script here")
    monkeypatch.setenv("PATH", str(tmp_path))
    alone = CudaCompiler("nvcc", real, COMPILER.version)
    found = compile_cubin("__global__ void k() {}", "sm_90", tmp_path, compiler=alone)
    assert isinstance(found, NotBuilt) and found.status is BuildStatus.NO_COMPILER, found
    assert "does not work here" in found.message


@pytest.mark.parametrize(
    ("device", "compiled_for"),
    [
        ("sm_89", "sm_89"),
        ("sm_90", "sm_90a"),
        ("sm_90a", "sm_90a"),
        ("sm_120", "sm_120a"),
        ("gfx942", "gfx942"),
    ],
)
def test_launchers_have_what_only_their_device_has(device: str, compiled_for: str) -> None:
    assert launcher_architecture(device) == compiled_for


def test_architectures_of_others_are_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gfx942"):
        compile_cubin("", "gfx942", tmp_path)


def test_source_that_would_read_files_meets_no_compiler(tmp_path: Path) -> None:
    nowhere = CudaCompiler("nvcc", tmp_path / "never", "0")
    found = compile_cubin('#include "/etc/passwd"\n', "sm_90", tmp_path, compiler=nowhere)
    assert isinstance(found, NotBuilt) and found.status is BuildStatus.NOT_ALLOWED
    assert "/etc/passwd" in found.message and list(tmp_path.iterdir()) == []


def test_nvrtc_makes_no_launcher_and_says_so(tmp_path: Path) -> None:
    nvrtc = CudaCompiler("nvrtc", tmp_path / "libnvrtc.so.13", "13.0")
    found = compile_shared("", "sm_90", tmp_path, compiler=nvrtc)
    assert isinstance(found, NotBuilt) and found.status is BuildStatus.NO_COMPILER and "nvcc" in found.message
