"""CUDA C++ in candidates, as it is compiled ahead of time: literals of the module, or ``load_inline``."""

from kernelwright.targets.cuda.nvcc.bare import wrap_cuda
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.cuda.nvcc.form import CudaSource
from kernelwright.targets.cuda.nvcc.launcher import launcher_architecture
from kernelwright.targets.cuda.nvcc.load_inline import read_load_inline
from kernelwright.targets.cuda.nvcc.report_inline import read_cuda, report_candidate
from kernelwright.targets.gpu.inspect.form import AotForm
from kernelwright.targets.gpu.inspect.inspection import KernelForm


def _is_ours(source: str) -> bool:
    found = read_cuda(source)
    return found is not None and (isinstance(found, CudaSource) or read_load_inline(source) is None)


def _missing() -> str | None:
    found = find_cuda_compiler()
    return found.reason if isinstance(found, Absent) else None


CUDA_FORM = AotForm(
    name=KernelForm.CUDA,
    title="CUDA C++",
    vendor="nvidia",
    vendor_title="NVIDIA",
    example="sm_90",
    is_in=_is_ours,
    report=report_candidate,
    find_missing=_missing,
    architecture=launcher_architecture,
)
INLINE_FORM = AotForm(
    name=KernelForm.LOAD_INLINE,
    title="CUDA C++",
    vendor="nvidia",
    vendor_title="NVIDIA",
    example="sm_90",
    is_in=lambda source: read_cuda(source) is not None,
    report=report_candidate,
    find_missing=_missing,
    is_whole=False,
    wrap=wrap_cuda,
    suffixes=(".cu", ".cuh"),
)
