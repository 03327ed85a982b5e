"""The object that the entry point names: a device, a language, and what the two can do."""

from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.core.target import TargetName
from kernelwright.targets.base import Target
from kernelwright.targets.device import PROCESSOR

if TYPE_CHECKING:
    from kernelwright.ir.lowering import Lowering, Write


class NumpyTarget(Target):
    """NumPy on the processor. It needs no compiler, so it builds nothing and carries no loader."""

    name = TargetName(device="cpu", language="numpy")
    device = PROCESSOR

    @cached_property
    def lowering(self) -> "Lowering":
        """NumPy decides by itself how it goes through memory: there are no schedules to choose from."""
        # lazy: loads torch
        from kernelwright.ir.lowering import Lowering

        return Lowering(with_schedules=lambda program, machine: program, no_rewrites=_NOT_FOR_NUMPY)

    @cached_property
    def writer(self) -> "Write":
        """Prints a candidate."""
        # lazy: loads torch
        from numpy_target.candidate import render_numpy_candidate

        return render_numpy_candidate


_NOT_FOR_NUMPY = frozenset({"channels_last"})
"""A layout that only kernels with schedules of their own gain from."""
CPU_NUMPY = NumpyTarget()
