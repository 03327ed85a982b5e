"""CUDA C++ and HIP C++ candidates end in the same inspection as Triton's; wrong ones in a status."""

from pathlib import Path

import pytest

from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.evidence import METRICS
from kernelwright.targets.cuda import aot as cuda_aot
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler, find_cuobjdump
from kernelwright.targets.gpu.inspect.compiled import default_gpu, form_of, inspect_compiled, require_compiler
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelForm,
    KernelOutcome,
)
from kernelwright.targets.gpu.inspect.run import find_device
from kernelwright.targets.hip.hipcc import find as hip_find
from kernelwright.targets.hip.hipcc.find import find_hip_compiler

COMPILER = find_cuda_compiler()
needs_nvcc = pytest.mark.skipif(isinstance(COMPILER, Absent) or COMPILER.kind != "nvcc", reason="needs nvcc")
needs_cuda = pytest.mark.skipif(isinstance(COMPILER, Absent), reason="needs nvcc or NVRTC")
needs_hip = pytest.mark.skipif(
    isinstance(find_hip_compiler(), Absent), reason="needs hipcc, or a clang with AMD's back end"
)
OURS = '''
CUDA_SOURCE = r"""
extern "C" __global__ void scale(const float4* x, float4* y, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 v = x[i];
  y[i] = make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
}
"""
LAUNCHES = (
    {"name": "wide", "kernel": "scale", "grid": (4096, 1, 1), "block": (256, 1, 1),
     "arguments": ("tensor", "tensor", "float32")},
    {"name": "greedy", "kernel": "scale", "grid": (4096, 1, 1), "block": (256, 1, 1), "shared_bytes": 300000,
     "arguments": ("tensor", "tensor", "float32")},
    {"name": "tall", "kernel": "scale", "grid": (1, 70000, 1), "block": (256, 1, 1),
     "arguments": ("tensor", "tensor", "float32")},
)
'''
INLINE = '''
import triton
from torch.utils.cpp_extension import load_inline
CUDA_SOURCE = """
#include <torch/extension.h>
__global__ void twice(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] * 2.0f; }
__global__ void once(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  twice<<<x.numel() / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>());
  once<<<1, x.numel()>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}
"""
module = load_inline("m", cpp_sources="torch::Tensor run(torch::Tensor);", cuda_sources=CUDA_SOURCE)
'''
HIP = OURS.replace("CUDA_SOURCE", "HIP_SOURCE").replace('r"""\n', 'r"""\n#include <hip/hip_runtime.h>\n')
TRITON = "import triton\n\n@triton.jit\ndef k(): ...\n"


def inspected(source: str, cache: Path, gpu: str = "sm_90") -> Inspection:
    return inspect_compiled(source, find_device(gpu), cache, form=form_of(source))


@pytest.mark.parametrize(
    ("source", "form"),
    [
        (OURS, KernelForm.CUDA),
        (INLINE, KernelForm.LOAD_INLINE),
        (HIP, KernelForm.HIP),
        (TRITON, KernelForm.TRITON),
        ("class ModelNew: ...", KernelForm.TRITON),
        ("def broken(:", KernelForm.TRITON),
        ("CUDA_SOURCE = open('f').read()", KernelForm.CUDA),
        ("import m\nm.load_inline('a', [], cuda_sources=made())", KernelForm.LOAD_INLINE),
        ("m.load_inline('a', cpp_sources=['int x;'])", KernelForm.TRITON),
    ],
)
def test_a_candidate_shows_its_form(source: str, form: KernelForm) -> None:
    assert form_of(source) is form
    assert default_gpu(form) == ("gfx942" if form is KernelForm.HIP else "sm_90")


@needs_cuda
def test_each_launch_is_a_kernel_with_its_facts_and_its_limits(tmp_path: Path) -> None:
    found = inspected(OURS, tmp_path)
    assert (found.form, found.status) == (KernelForm.CUDA, InspectionStatus.INSPECTED), found
    wide, greedy, tall = found.kernels
    assert (wide.outcome, wide.grid, wide.num_warps, wide.launches) == (
        KernelOutcome.FITS, (4096, 1, 1), 8, None,
    )  # fmt: skip
    if find_cuobjdump():  # reads machine code; it comes with the toolkit or with triton
        assert wide.facts["aot.load_bytes"] == wide.facts["aot.store_bytes"] == 16
    assert wide.facts["gpu.units"] == 132 and wide.facts["gpu.waves"] == pytest.approx(4096 / (8 * 132))
    assert {kernel.function for kernel in found.kernels} == {"scale"}
    assert greedy.outcome is KernelOutcome.CANNOT_LAUNCH and "300000 bytes of shared" in greedy.detail
    assert tall.outcome is KernelOutcome.CANNOT_LAUNCH and "70000 programs along y" in tall.detail
    assert not found.can_run and found.versions["compiler"].startswith(("nvcc-", "nvrtc-"))
    assert found.facts()["gpu.launches"] is None and set(found.facts()) <= set(METRICS)
    assert found.heaviest == tall


@needs_nvcc
def test_what_load_inline_leaves_open_is_not_claimed(tmp_path: Path) -> None:
    found = inspected(INLINE, tmp_path)
    assert (found.form, found.status) == (KernelForm.LOAD_INLINE, InspectionStatus.INSPECTED), found
    kernels = {kernel.kernel: kernel for kernel in found.kernels}
    assert kernels["twice"].outcome is KernelOutcome.FITS and kernels["twice"].num_warps == 4
    assert kernels["once"].outcome is KernelOutcome.BUILT and kernels["once"].num_warps is None
    assert "aot.occupancy" not in kernels["once"].facts
    assert "once: size of its blocks is computed at run time" in found.notes
    assert "it uses Triton too: those kernels were not looked at" in found.notes
    assert found.can_run


@needs_hip
def test_hip_is_compiled_for_amd(tmp_path: Path) -> None:
    found = inspected(HIP, tmp_path, "gfx942")
    assert (found.form, found.status) == (KernelForm.HIP, InspectionStatus.INSPECTED), found
    assert found.kernels[0].outcome is KernelOutcome.FITS and found.kernels[0].num_warps == 4
    assert found.kernels[1].outcome is KernelOutcome.CANNOT_LAUNCH


@needs_cuda
@pytest.mark.parametrize(
    ("old", "new", "status", "says"),
    [
        ("make_float4(", "make_nothing(", InspectionStatus.NOT_BUILT, "make_nothing"),
        ('"kernel": "scale"', '"kernel": "other"', InspectionStatus.NOT_BUILT, "other"),
        ('extern "C"', '#include "/etc/passwd"\nextern "C"', InspectionStatus.NOT_ALLOWED, "include"),
        ('"block": (256, 1, 1)', '"block": (0, 1, 1)', InspectionStatus.NOT_THE_FORM, "no size"),
        (
            "LAUNCHES = (",
            "NVCC_FLAGS = ('-o/x',)\nLAUNCHES = (",
            InspectionStatus.NOT_THE_FORM,
            "not allowed",
        ),
    ],
)
def test_what_cannot_be_compiled_is_a_status(
    tmp_path: Path, old: str, new: str, status: InspectionStatus, says: str
) -> None:
    found = inspected(OURS.replace(old, new), tmp_path)
    assert (found.status, found.kernels, found.can_run) == (status, (), False)
    assert says in found.detail and "\n" not in found.detail


@needs_nvcc
def test_headers_that_are_not_here_say_nothing_of_the_candidate(tmp_path: Path) -> None:
    source = INLINE.replace("const float* x, float* y) { y[", "torch::Tensor x, float* y) { y[", 1)
    found = inspected(source, tmp_path)
    assert found.status is InspectionStatus.NEEDS_HEADERS and "torch::Tensor" in found.detail


@pytest.mark.parametrize(("source", "gpu"), [(OURS, "gfx942"), (INLINE, "mi300x"), (HIP, "sm_90")])
def test_a_language_is_compiled_for_its_vendor_alone(source: str, gpu: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name one with --gpu"):
        inspected(source, tmp_path, gpu)


def test_a_machine_without_the_compiler_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(hip_find, "SYSTEM_HOME", str(tmp_path))
    for name in ("ROCM_PATH", "HIP_CLANG_PATH"):
        monkeypatch.delenv(name, raising=False)
    for ask in (lambda: require_compiler(KernelForm.HIP), lambda: inspected(HIP, tmp_path, "gfx942")):
        with pytest.raises(MachineError, match="install ROCm") as raised:
            ask()
        assert "\n" not in str(raised.value)
    monkeypatch.setattr(cuda_aot, "find_cuda_compiler", lambda: Absent("install the CUDA toolkit"))
    with pytest.raises(MachineError, match="install the CUDA toolkit"):
        require_compiler(KernelForm.CUDA)
    require_compiler(KernelForm.TRITON)
