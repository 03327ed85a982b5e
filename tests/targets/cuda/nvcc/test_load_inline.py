"""KernelBench's form: kernels are taken out of sources written against torch's headers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.targets.cuda.nvcc.device_part import take_device_part
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.cuda.nvcc.host_launches import HostLaunch, host_launches, number_of
from kernelwright.targets.cuda.nvcc.load_inline import InlineCuda, read_load_inline
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt
from kernelwright.targets.cuda.nvcc.report_inline import base_name, report_candidate

COMPILER = find_cuda_compiler()
needs_nvcc = pytest.mark.skipif(isinstance(COMPILER, Absent) or COMPILER.kind != "nvcc", reason="needs nvcc")
PIECES = (
    "/*", "*/", "//", "\n", '"', "'", 'R"(', ')"', "{", "}", "(", ")", ";", "#define A \\\n", "a<", "<<<",
    ">>>(", "struct a {}", "namespace b {", 'extern "C" {', "int x = 1", "template <", "dim3 a(",
    "__global__ void k() {",
)  # fmt: skip

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#define TILE 16  // square
#if 1
constexpr int WIDE = 128;
#endif
struct Pair { float a, b; };
__device__ __forceinline__ float twice(float x) { return x * 2.0f; /* a } and a ; */ }
static inline int blocks_for(int n) { return (n + 255) / 256; }

__global__ void first(const float* x, float* y, int n) {
  __shared__ float s[TILE];
  const char brace = '{', *words = "}; {";
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = twice(x[i]) + s[threadIdx.x % TILE] + (brace == words[3]); }
}
namespace mine {
template <typename scalar_t, int N>
__global__ void second(const scalar_t* __restrict__ x, scalar_t* __restrict__ y) {
  y[threadIdx.x] = fmaxf(x[threadIdx.x], N);
}
}  // namespace mine

torch::Tensor helper(torch::Tensor x);
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int threads = 256;
  dim3 block(TILE, TILE);
  first<<<blocks_for(x.numel()), threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "run", ([&] {
    mine::second<scalar_t, WIDE><<<dim3(4), block, TILE * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>());
  }));
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
CANDIDATE = f'''
import torch
from torch.utils.cpp_extension import load_inline
kernels = r"""{SOURCE}"""
declared = "torch::Tensor run(torch::Tensor x);"
extension = load_inline(
    name="x", cpp_sources=declared, cuda_sources=[kernels], functions=["run"],
    extra_cuda_cflags=["-O3", "--use_fast_math", "-arch=native", ""], extra_cflags=[""],
)
'''


def read(candidate: str) -> InlineCuda:
    found = read_load_inline(candidate)
    assert isinstance(found, InlineCuda), found
    return found


def test_device_code_is_kept_and_host_code_is_not() -> None:
    part = take_device_part(SOURCE)
    for kept in (
        "#define TILE",
        "#if 1",
        "WIDE = 128",
        "struct Pair",
        "twice(float x) {",
        "void first(",
        "mine {",
    ):
        assert kept in part.device
    for gone in ("torch/", "ATen", "empty_like", "blocks_for(int", "PYBIND11", "helper"):
        assert gone not in part.device
    assert "first<<<" in part.host and "cuda_fp16.h" in part.device
    assert part.device.count("{") - part.device.count("}") == 1  # the one in a character


def test_what_load_inline_is_given_is_read() -> None:
    found = read(CANDIDATE)
    assert found.functions == ("run",) and found.flags[-2:] == ("--expt-relaxed-constexpr", "--use_fast_math")
    assert found.flags[:2] == ("-std=c++17", "-O3") and "-D__CUDA_NO_HALF_OPERATORS__" in found.flags
    assert found.notes == ("scalar_t taken as float", "compiled without -arch=native")
    assert found.launches == (
        HostLaunch("first", None, 256, 0),
        HostLaunch("mine::second", "scalar_t, WIDE", 256, 64),
    )


def test_what_flags_ask_of_torchs_build_is_followed() -> None:
    flags = ["-U__CUDA_NO_HALF_OPERATORS__", "-gencode", "arch=compute_90a,code=sm_90a"]
    found = read(f"load_inline('x', '', '__global__ void k() {{}}', extra_cuda_cflags={flags})")
    assert found.architectures == ("sm_90a",) and found.notes == ()
    assert "-D__CUDA_NO_HALF_OPERATORS__" not in found.flags
    assert "-D__CUDA_NO_HALF2_OPERATORS__" in found.flags


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("kernels", True),
        ("kernels + kernels", True),
        ("(kernels,)", True),
        ("f'{kernels}'", False),
        ("make()", False),
        ("kernels.replace('a', 'b')", False),
        ("twice", False),
    ],
)
def test_sources_must_be_written_out(given: str, expected: bool) -> None:
    candidate = (
        f"kernels = '__global__ void k() {{}}'\ntwice = 'a'\ntwice = 'b'\ne = load_inline('e', '', {given})"
    )
    found = read_load_inline(candidate)
    if expected:
        assert isinstance(found, InlineCuda) and "void k()" in found.text
    else:
        assert isinstance(found, NotBuilt) and found.status is BuildStatus.NOT_THE_FORM
        assert given in found.message


@pytest.mark.parametrize(
    "candidate",
    [
        "x = 1",
        "load_inline(name='x', cpp_sources='int f();')",
        "load_inline('x', '', None)",
        "load_inline('x', '', '')",
    ],
)
def test_candidates_without_cuda_are_none(candidate: str) -> None:
    assert read_load_inline(candidate) is None


@settings(max_examples=80)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_source_is_taken_apart(source: str) -> None:
    part = take_device_part(source)
    assert len(part.device) + len(part.host) <= 2 * len(source) + 2
    host_launches(part.host, part.device)


@pytest.mark.parametrize("piece", PIECES)
def test_sources_made_to_be_slow_are_read(piece: str) -> None:
    number = 20_000 // len(piece)
    assert read_load_inline(f"load_inline('x', '', {'x' + piece * number!r})") is not None


def test_a_source_too_long_or_folded_up_is_named() -> None:
    folded = "a0 = 'xxxxxxxx'\n" + "".join(f"a{n + 1} = a{n} + a{n}\n" for n in range(40))
    for candidate in (f"load_inline('x', '', {'x' * 100_001!r})", f"{folded}load_inline('x', '', a40)"):
        assert isinstance(read_load_inline(candidate), NotBuilt)


def test_sizes_computed_at_run_time_are_unknown() -> None:
    numbers = "int threads = pick(n); int both = 128;"
    host = f"{numbers}\n k<<<g, threads>>>(); l<<<g, dim3(8, n), both>>>();"
    assert host_launches(host, "") == (HostLaunch("k", None, None, 0), HostLaunch("l", None, None, 128))
    assert number_of("2 * (3 + N) - sizeof(double)", {"N": 5}) == 8
    assert number_of("__import__('os').getpid()", {}) is None and number_of("1 << 70", {}) is None


@pytest.mark.parametrize(
    ("linked", "name"),
    [("first", "first"), ("_Z5firstPKfPfi", "first"), ("_ZN4mine6secondIfLi128EEEvPKT_PS1_", "second")],
)
def test_names_are_read_back(linked: str, name: str) -> None:
    assert base_name(linked) == name


@needs_nvcc
def test_kernels_of_a_candidate_are_compiled_without_torch(tmp_path: Path) -> None:
    report = report_candidate(CANDIDATE, "sm_90", tmp_path)
    assert report is not None and report.status is BuildStatus.BUILT, report
    facts = {one.launch: one.facts for one in report.launches}
    assert facts.keys() == {"first", "second"}
    assert facts["first"]["aot.shared_bytes"] == 64 and facts["second"]["aot.shared_bytes"] == 64
    assert facts["second"]["aot.occupancy"] == 1.0 and facts["first"]["aot.spills"] == 0


@needs_nvcc
def test_device_code_is_compiled_as_torch_would(tmp_path: Path) -> None:
    source = """
using namespace at;
constexpr float twice(float x) { return 2.0f * x; }
__global__ void k(float* x) { asm volatile("wgmma.fence.sync.aligned;"); *x = twice(*x); }
"""
    candidate = f"load_inline('x', '', {source!r}, extra_cuda_cflags=['-arch=sm_90a'])"
    report = report_candidate(candidate, "sm_90", tmp_path)
    assert report is not None and report.status is BuildStatus.BUILT, report
    assert report.architecture == "sm_90a"


@needs_nvcc
def test_what_needs_torch_is_named_and_nobodys_fault(tmp_path: Path) -> None:
    source = "__global__ void k(torch::PackedTensorAccessor32<float, 2> x) { x[0][0] = 1; }"
    report = report_candidate(f"load_inline('x', '', {source!r})", "sm_90", tmp_path)
    assert report is not None and report.status is BuildStatus.NEEDS_HEADERS
    assert "torch::PackedTensorAccessor32" in report.message


@needs_nvcc
def test_kernels_that_only_host_code_could_complete_are_named(tmp_path: Path) -> None:
    source = "template <class T> __global__ void k(T* x) { *x = 1; }\nvoid run(float* x) { k<<<1, 32>>>(x); }"
    report = report_candidate(f"load_inline('x', '', {source!r})", "sm_90", tmp_path)
    assert report is not None and report.status is BuildStatus.BUILT and report.launches == ()
    assert any(note.startswith("k: launched, but not compiled") for note in report.notes)
