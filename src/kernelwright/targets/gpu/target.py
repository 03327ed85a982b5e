"""What targets for GPUs share."""

from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.targets.base import Target

if TYPE_CHECKING:
    from kernelwright.ir.plan_lowering import Lowering


class GpuTarget(Target):
    """A language for GPUs. One that nothing of ours prints reads programs as they are cut into kernels."""

    shows_host_side = True

    @cached_property
    def lowering(self) -> "Lowering":
        """Programs to be read, without schedules to choose from."""
        # lazy: loads torch
        from kernelwright.targets.gpu.reading import LOWERING

        return LOWERING
