"""Profilers' metric names, verbatim, and the one place where they become ours."""

import math
from collections.abc import Mapping

from kernelwright.core.evidence import FactValue

NSIGHT_COMPUTE: dict[str, tuple[str, float]] = {
    "gpu__time_duration.sum": ("gpu.kernel_us", 1e-3),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("gpu.sm_fraction", 0.01),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("gpu.dram_fraction", 0.01),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("gpu.dram_fraction", 0.01),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("gpu.l2_fraction", 0.01),
    "l1tex__throughput.avg.pct_of_peak_sustained_active": ("gpu.l1_fraction", 0.01),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("gpu.tensor_fraction", 0.01),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("gpu.occupancy", 0.01),
    "smsp__warps_eligible.avg.per_cycle_active": ("gpu.eligible_warps", 1.0),
    "launch__waves_per_multiprocessor": ("gpu.waves", 1.0),
    "smsp__thread_inst_executed_per_inst_executed.ratio": ("gpu.active_lanes", 1 / 32),
    "l1tex__t_sector_hit_rate.pct": ("gpu.l1_hit_rate", 0.01),
    "lts__t_sector_hit_rate.pct": ("gpu.l2_hit_rate", 0.01),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": ("gpu.sectors_per_load", 1.0),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": ("gpu.sectors_per_store", 1.0),
    "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct": ("gpu.stall_memory", 0.01),
    "smsp__warp_issue_stalled_short_scoreboard_per_warp_active.pct": ("gpu.stall_shared", 0.01),
    "smsp__warp_issue_stalled_barrier_per_warp_active.pct": ("gpu.stall_barrier", 0.01),
    "launch__registers_per_thread": ("aot.registers", 1.0),
    "launch__block_size": ("aot.block_threads", 1.0),
}
"""Metric as ``ncu --csv --print-units base`` writes it -> ours and the factor (times are in ns there)."""

BANK_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"


def ncu_facts(values: Mapping[str, float | None]) -> dict[str, FactValue]:
    """Return our facts from one kernel's metrics; what was not measured is left out, never 0.

    Shares are cut off at 1: a unit's peak is an estimate, and profilers report a little more than 100 %.
    """
    facts: dict[str, FactValue] = {}
    for verbatim, (name, factor) in NSIGHT_COMPUTE.items():
        value = values.get(verbatim)
        if value is not None:
            facts[name] = min(value * factor, 1.0) if factor in (0.01, 1 / 32) else value * factor
    conflicts, passes = values.get(BANK_CONFLICTS), values.get(SHARED_PASSES)
    if conflicts is not None and passes:
        facts["gpu.bank_conflict_fraction"] = min(conflicts / passes, 1.0)
    return facts


ROCPROF: dict[str, tuple[str, float]] = {
    "OccupancyPercent": ("gpu.occupancy", 0.01),
    "VALUUtilization": ("gpu.active_lanes", 0.01),
    "L2CacheHit": ("gpu.l2_hit_rate", 0.01),
    "MfmaUtil": ("gpu.tensor_fraction", 0.01),
}
"""Derived metric of ``rocprofv3 --pmc`` -> ours and the factor; those of another meaning stay verbatim."""


def rocprof_facts(values: Mapping[str, float | None]) -> dict[str, FactValue]:
    """Return our facts from one kernel's counters; what was not measured is left out, never 0."""
    found = {name: (ROCPROF[name], value) for name, value in values.items() if name in ROCPROF}
    return {ours: min(value * factor, 1.0) for (ours, factor), value in found.values() if value is not None}


TORCH_REGISTERS, TORCH_BLOCK = "registers per thread", "block"
"""A kernel's arguments in ``torch.profiler``'s trace; the second is a block's three sizes."""


def torch_facts(arguments: Mapping[str, object]) -> dict[str, FactValue]:
    """Return our facts from one kernel's arguments; what was not written is left out, never 0."""
    facts: dict[str, FactValue] = {}
    registers, block = arguments.get(TORCH_REGISTERS), arguments.get(TORCH_BLOCK)
    if isinstance(registers, int):
        facts["aot.registers"] = registers
    if isinstance(block, list) and len(block) == 3 and all(isinstance(size, int) for size in block):
        facts["aot.block_threads"] = math.prod(block)
    return facts
