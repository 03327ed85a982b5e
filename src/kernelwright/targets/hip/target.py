"""HIP C++ on GPUs of AMD."""

from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.core.target import TargetName
from kernelwright.targets.gpu.target import GpuTarget
from kernelwright.targets.hip.device import AMD

if TYPE_CHECKING:
    from kernelwright.targets.gpu.inspect.form import AotForm


class HipTarget(GpuTarget):
    """``hip/hip``: ``kernelwright inspect`` compiles it; nothing of ours writes or runs it."""

    name = TargetName(device="hip", language="hip")
    device = AMD
    is_run = False

    @cached_property
    def aot_forms(self) -> "tuple[AotForm, ...]":
        """In literals of the module."""
        # lazy: needed where candidates are inspected
        from kernelwright.targets.hip.aot import HIP_FORM

        return (HIP_FORM,)


HIP_HIP = HipTarget()
