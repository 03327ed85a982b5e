"""Triton as a target of lowered programs: default schedules, edits, repairs."""

from collections.abc import Mapping

from kernelwright.core.machine import ANY_GPU, Machine
from kernelwright.ir.edits import ScheduleEdit
from kernelwright.ir.lowering import Lowering, Repair
from kernelwright.targets.triton.defaults import with_triton_schedules
from kernelwright.targets.triton.edits import triton_edits

CPU_REWRITES = frozenset(
    {"onednn_matmul", "convolution_as_matmul", "untransposed_convolution", "channels_last"}
)
"""Other ways to call a library that pay with the libraries of a CPU; algebra is for every device."""


def _edits(machine: Machine) -> Mapping[str, ScheduleEdit]:
    return triton_edits(machine.accelerator or ANY_GPU)


LOWERING = Lowering(
    with_schedules=with_triton_schedules,
    own_products=True,
    edits_for=_edits,
    no_rewrites=CPU_REWRITES,
    loosens=frozenset({"schedule:triton-precision"}),
    repairs=(
        Repair(
            "two-pass-statistics",
            "schedule:triton-moments",
            {"moments": "two_pass"},
            "subtract the mean before squaring",
        ),
    ),
)
