"""How many blocks of a kernel one SM or CU holds at a time, from what the compiler says it needs."""

from typing import Literal

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.targets.gpu.limits import GpuArchitecture

Limit = Literal["warps", "blocks", "registers", "shared", "launch"]


class Occupancy(Frozen):
    """What is resident at most; a block that never fits has 0 blocks and the limit ``launch``."""

    blocks: int
    warps: int
    fraction: float
    """Resident over possible warps, 0 to 1."""
    limit: Limit
    """What ends it; of several that do equally, the one a schedule can change most easily."""
    blocks_by: dict[str, int]
    """Blocks each resource alone would allow."""


def occupancy(
    architecture: GpuArchitecture, *, block_threads: int, registers: int, shared_bytes: int
) -> Occupancy:
    """Return the theoretical occupancy; the grid is taken to be large enough.

    The rules are those of NVIDIA's cuda_occupancy.h and of LLVM's AMDGPU back end: registers go to whole
    warps in granules and come from the partition the warp lives in, shared memory goes to blocks in granules.

    Args:
        architecture: the SM or CU.
        block_threads: threads of a block; a partly filled warp counts as a whole one.
        registers: of a thread, as the compiler reports; on AMD vector and accumulation registers together.
        shared_bytes: static and dynamic, of a block, without what the driver adds.

    Raises:
        ValueError: a negative size or no threads.
    """
    if block_threads < 1 or registers < 0 or shared_bytes < 0:
        raise ValueError(f"no kernel: {block_threads} threads, {registers} registers, {shared_bytes} bytes")
    warps = -(-block_threads // architecture.warp_lanes)
    by = {
        "shared": _blocks_by_shared(architecture, shared_bytes),
        "registers": _blocks_by_registers(architecture, warps, registers),
        "warps": architecture.max_warps // warps,
        "blocks": architecture.max_blocks if warps == 1 else architecture.max_multiwarp_blocks,
    }
    if block_threads > architecture.max_block_threads or min(by.values()) == 0:
        return Occupancy(blocks=0, warps=0, fraction=0.0, limit="launch", blocks_by=by)
    blocks = min(by.values())
    limit: Limit = next(name for name in ("warps", "blocks", "registers", "shared") if by[name] == blocks)
    resident = blocks * warps
    return Occupancy(
        blocks=blocks,
        warps=resident,
        fraction=resident / architecture.max_warps,
        limit=limit,
        blocks_by=by,
    )


def _blocks_by_registers(architecture: GpuArchitecture, warps: int, registers: int) -> int:
    if registers > architecture.max_thread_registers:
        return 0
    of_warp = _round_up(max(registers, 1) * architecture.warp_lanes, architecture.register_granule)
    checked = _round_up(warps, architecture.partitions) if architecture.block_rounds_to_partitions else warps
    if of_warp * checked > architecture.registers:
        return 0
    in_partition = architecture.registers // architecture.partitions // of_warp
    return in_partition * architecture.partitions // warps


def _blocks_by_shared(architecture: GpuArchitecture, shared_bytes: int) -> int:
    if shared_bytes > architecture.shared_block_bytes:
        return 0
    of_block = _round_up(shared_bytes + architecture.shared_reserved, architecture.shared_granule)
    return architecture.shared_bytes // of_block if of_block else architecture.max_blocks


def _round_up(size: int, granule: int) -> int:
    return -(-size // granule) * granule


def occupancy_facts(found: Occupancy) -> dict[str, FactValue]:
    """Return the occupancy under the names of the evidence."""
    return {
        "aot.occupancy": found.fraction,
        "aot.resident_blocks": found.blocks,
        "aot.occupancy_limit": found.limit,
    }
