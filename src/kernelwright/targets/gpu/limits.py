"""What one SM or CU of each GPU architecture holds, and in which steps it hands that out."""

from typing import Literal, Self

from pydantic import model_validator

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen

_CUDA_HEADER = "cuda_occupancy.h of CUDA 13.0 (NVIDIA's occupancy calculator), read in the toolkit"
_PTXAS = "ptxas 13.0, tried: -maxrregcount=256 is lowered to 255"
_WARPS = "docs.rs, oxicuda-launch 0.4.1, SmVersion::max_warps_per_sm; modal.com GPU glossary, occupancy"
_REGISTERS = "modal.com GPU glossary, occupancy (H100); rule of CUDA's occupancy calculator since sm_50"
_CUTLASS = "NVIDIA/cutlass 2026-08, include/cutlass/arch/arch.h and sm90_common.inl: 232448 bytes"
_RESERVED = "cuda_occupancy.h: reserved for the driver since sm_80; cuobjdump shows 1024 bytes on sm_90"
_THREADS = "NVIDIA/cutlass 2026-08, media/docs/pythonDSL/guides/tvm_ffi_compilation.rst: 1024 threads at most"
_LLVM = "llvm/llvm-project, AMDGPU/Utils/AMDGPUBaseInfo.cpp (IsaInfo), the rules the compiler itself uses"
_ROCM = "ROCm documentation, accelerator and GPU hardware specifications"
_LDS_950 = "ROCm 7.13 documentation, AMD GPU specifications: 160 KiB; LLVM getLdsDwGranularity: 320 dwords"


class GpuArchitecture(Frozen):
    """Limits of one SM (NVIDIA) or CU (AMD); sizes in bytes, registers of 32 bits."""

    name: str
    """The compiler's name: ``sm_90``, ``gfx942``."""
    vendor: Literal["nvidia", "amd"]
    warp_lanes: int
    max_warps: int
    """Resident at a time."""
    max_blocks: int
    """Resident at a time."""
    max_multiwarp_blocks: int
    """The same for blocks of several warps, which need a barrier each."""
    max_block_threads: int
    partitions: int
    """Schedulers or SIMDs; each owns an equal part of the registers, and a warp lives in one."""
    registers: int
    """All partitions together."""
    max_thread_registers: int
    register_granule: int
    """Registers are given to a warp in multiples of this many."""
    block_rounds_to_partitions: bool
    """Whether a block is checked as if it filled all partitions evenly (NVIDIA, at launch)."""
    shared_bytes: int
    shared_block_bytes: int
    """Largest block, what the driver reserves not counted."""
    shared_granule: int
    shared_reserved: int
    """Taken for every block besides what it asks for."""
    sources: dict[str, str]
    """Field -> document; every field but the name has one."""

    @model_validator(mode="after")
    def _every_figure_has_a_source(self) -> Self:
        fields = set(type(self).model_fields) - {"name", "vendor", "sources"}
        if fields != set(self.sources):
            raise ValueError(f"{self.name}: sources differ from figures in {fields ^ set(self.sources)}")
        return self


def _nvidia(name: str, warps: int, blocks: int, shared_kib: int, block_source: str) -> GpuArchitecture:
    return GpuArchitecture(
        name=name,
        vendor="nvidia",
        warp_lanes=32,
        max_warps=warps,
        max_blocks=blocks,
        max_multiwarp_blocks=blocks,
        max_block_threads=1024,
        partitions=4,
        registers=65536,
        max_thread_registers=255,
        register_granule=256,
        block_rounds_to_partitions=True,
        shared_bytes=shared_kib << 10,
        shared_block_bytes=(shared_kib - 1) << 10,
        shared_granule=128,
        shared_reserved=1024,
        sources={
            "warp_lanes": _CUDA_HEADER,
            "max_warps": _WARPS,
            "max_blocks": _CUDA_HEADER,
            "max_multiwarp_blocks": _CUDA_HEADER,
            "max_block_threads": _THREADS,
            "partitions": _CUDA_HEADER,
            "registers": _REGISTERS,
            "max_thread_registers": _PTXAS,
            "register_granule": _CUDA_HEADER,
            "block_rounds_to_partitions": _CUDA_HEADER,
            "shared_bytes": _CUDA_HEADER,
            "shared_block_bytes": block_source,
            "shared_granule": _CUDA_HEADER,
            "shared_reserved": _RESERVED,
        },
    )


def _cdna(name: str, lds_kib: int, lds_granule: int, lds_source: str) -> GpuArchitecture:
    return GpuArchitecture(
        name=name,
        vendor="amd",
        warp_lanes=64,
        max_warps=32,
        max_blocks=32,
        max_multiwarp_blocks=16,
        max_block_threads=1024,
        partitions=4,
        registers=512 * 64 * 4,
        max_thread_registers=512,
        register_granule=8 * 64,
        block_rounds_to_partitions=False,
        shared_bytes=lds_kib << 10,
        shared_block_bytes=lds_kib << 10,
        shared_granule=lds_granule,
        shared_reserved=0,
        sources={
            "warp_lanes": _ROCM,
            "max_warps": f"{_LLVM}: 8 waves an execution unit, 4 units a CU",
            "max_blocks": f"{_LLVM}: getMaxWorkGroupsPerCU",
            "max_multiwarp_blocks": f"{_LLVM}: 16 barriers",
            "max_block_threads": f"{_LLVM}: getMaxFlatWorkGroupSize",
            "partitions": f"{_LLVM}: getEUsPerCU",
            "registers": f"{_LLVM}: getTotalNumVGPRs; {_ROCM}: 512 KiB a CU",
            "max_thread_registers": f"{_LLVM}: getAddressableNumVGPRs, accumulation registers included",
            "register_granule": f"{_LLVM}: getVGPRAllocGranule, 8; ROCm's tuning guide says 16",
            "block_rounds_to_partitions": f"{_LLVM}: no such rule",
            "shared_bytes": lds_source,
            "shared_block_bytes": lds_source,
            "shared_granule": lds_source,
            "shared_reserved": f"{_LLVM}: no such rule",
        },
    )


ARCHITECTURES: dict[str, GpuArchitecture] = {
    architecture.name: architecture
    for architecture in (
        _nvidia("sm_80", 64, 32, 164, f"{_CUDA_HEADER}: 164 KiB less the reserved 1 KiB"),
        _nvidia("sm_89", 48, 24, 100, f"{_CUDA_HEADER}: 100 KiB less the reserved 1 KiB"),
        _nvidia("sm_90", 64, 32, 228, _CUTLASS),
        _nvidia("sm_100", 64, 32, 228, _CUTLASS),
        _cdna("gfx942", 64, 512, f"{_ROCM}: 64 KiB; LLVM getLdsDwGranularity: 128 dwords"),
        _cdna("gfx950", 160, 1280, _LDS_950),
    )
}
"""The architectures we know, by name."""


def find_architecture(name: str) -> GpuArchitecture:
    """Return the architecture; a suffix of the compiler (``sm_90a``) does not matter.

    Raises:
        UserError: not one of ARCHITECTURES.
    """
    found = ARCHITECTURES.get(name) or ARCHITECTURES.get(name.rstrip("abcdefghijklmnopqrstuvwxyz"))
    if found is None:
        raise UserError(f"unknown GPU architecture {name!r}; known: {', '.join(ARCHITECTURES)}")
    return found
