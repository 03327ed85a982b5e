"""C++ as a target of lowered programs: default schedules, edits, repairs."""

from kernelwright.ir.lowering import Lowering, Repair
from kernelwright.targets.cpp.cost import program_ns
from kernelwright.targets.cpp.schedules import schedule_edits, with_default_schedules

LOWERING = Lowering(
    with_schedules=with_default_schedules,
    edits_for=schedule_edits,
    estimate_ns=program_ns,
    own_products=True,
    own_recurrences=True,
    own_windows=True,
    takes_extents=True,
    repairs=(
        Repair("safer-chunk", "schedule:chunk", {"chunk": 16}, "sum shorter runs in float32"),
        Repair(
            "two-pass-moments",
            "schedule:moments",
            {"moments": "two_pass"},
            "subtract the mean before squaring",
        ),
    ),
)
