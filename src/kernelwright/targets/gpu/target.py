"""What targets for GPUs share."""

from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.core.machine import Machine
from kernelwright.targets.base import Inspect, Profile, Target

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

    @cached_property
    def inspect(self) -> Inspect:
        """Builds kernels for the GPU, as their form wants it."""
        # lazy: needed where candidates are judged
        from kernelwright.targets.gpu.inspect.ahead import look_ahead

        return look_ahead

    @cached_property
    def profile(self) -> Profile:
        """Asks the vendor's profilers, then torch's."""
        # lazy: needed where candidates are judged
        from kernelwright.targets.gpu.profilers.take import take_profile

        return partial(take_profile, kind=self.device.name)

    def probe_machine(self, cache_dir: Path) -> Machine:
        """Return this machine with the GPU that candidates run on."""
        # lazy: asks the driver
        from kernelwright.targets.gpu.machine import probe_gpu_machine

        return probe_gpu_machine(self.device.name, cache_dir)
