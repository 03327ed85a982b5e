"""CUDA C++ on GPUs of NVIDIA."""

from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.core.target import TargetName
from kernelwright.targets.base import Build, Loader, Prompting
from kernelwright.targets.cuda.device import NVIDIA
from kernelwright.targets.gpu.target import GpuTarget

if TYPE_CHECKING:
    from kernelwright.targets.gpu.inspect.form import AotForm


class CudaTarget(GpuTarget):
    """``cuda/cuda``: models and people write it, nvcc compiles it; nothing of ours prints it."""

    name = TargetName(device="cuda", language="cuda")
    device = NVIDIA
    kernel_words = ("CUDA_SOURCE", "load_inline")

    @cached_property
    def build(self) -> Build:
        """Compiles ``CUDA_SOURCE`` with its launches."""
        # lazy: needed where candidates are judged
        from kernelwright.targets.cuda.build import build_cuda

        return build_cuda

    @cached_property
    def loader(self) -> Loader:
        """Compiles and opens ``CUDA_SOURCE``."""
        # lazy: needed where models are asked
        from kernelwright.targets.cuda.prompting import CUDA_LOADER

        return CUDA_LOADER

    @cached_property
    def prompting(self) -> Prompting:
        """What models are told of CUDA C++."""
        # lazy: needed where models are asked
        from kernelwright.targets.cuda.prompting import CUDA_PROMPTING

        return CUDA_PROMPTING

    @cached_property
    def aot_forms(self) -> "tuple[AotForm, ...]":
        """In literals of the module, or for load_inline."""
        # lazy: needed where candidates are inspected
        from kernelwright.targets.cuda.aot import CUDA_FORM, INLINE_FORM

        return (CUDA_FORM, INLINE_FORM)


CUDA_CUDA = CudaTarget()
