"""Triton on GPUs of NVIDIA and AMD."""

from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.core.target import TargetName
from kernelwright.targets.base import Prompting
from kernelwright.targets.cuda.device import NVIDIA
from kernelwright.targets.device import DeviceKind
from kernelwright.targets.gpu.target import GpuTarget
from kernelwright.targets.hip.device import AMD

if TYPE_CHECKING:
    from kernelwright.ir.lowering import Lowering, Write


class TritonTarget(GpuTarget):
    """``cuda/triton`` and ``hip/triton``: one kernel a region; Triton compiles it where it runs."""

    kernel_words = ("triton", "load_inline")

    def __init__(self, device: DeviceKind, *, on_amd: bool) -> None:
        self.name = TargetName(device=device.name, language="triton")
        self.device = device
        self._on_amd = on_amd

    @cached_property
    def lowering(self) -> "Lowering":
        """The rules and edits of this folder."""
        # lazy: loads torch
        from kernelwright.targets.triton.lowering import LOWERING

        return LOWERING

    @cached_property
    def writer(self) -> "Write":
        """Writes the kernels and the functions that launch them."""
        # lazy: loads torch
        from kernelwright.targets.triton.candidate import render_triton_candidate

        return render_triton_candidate

    @cached_property
    def prompting(self) -> Prompting:
        """What models are told of Triton."""
        # lazy: needed where models are asked
        from kernelwright.targets.triton.prompting import triton_prompting

        return triton_prompting(on_amd=self._on_amd)


CUDA_TRITON = TritonTarget(NVIDIA, on_amd=False)
HIP_TRITON = TritonTarget(AMD, on_amd=True)
