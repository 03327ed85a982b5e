"""What targets for GPUs share."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.core.machine import Machine
from kernelwright.targets.base import Target

if TYPE_CHECKING:
    from kernelwright.ir.lowering import Lowering, Write


class GpuTarget(Target):
    """A language for GPUs. One that nothing of ours prints reads programs as they are cut into kernels."""

    shows_host_side = True

    @cached_property
    def lowering(self) -> "Lowering":
        """Programs to be read, without schedules to choose from."""
        # lazy: loads torch
        from kernelwright.targets.gpu.reading import LOWERING

        return LOWERING

    @cached_property
    def library_writer(self) -> "Write":
        """Prints calls of torch, which are the same for every language."""
        # lazy: loads torch
        from kernelwright.targets.gpu.reading import render_library_candidate

        return render_library_candidate

    def probe_machine(self, cache_dir: Path) -> Machine:
        """Return this machine with the GPU that candidates run on."""
        # lazy: asks the driver
        from kernelwright.targets.gpu.machine import probe_gpu_machine

        return probe_gpu_machine(self.device.name, cache_dir)
