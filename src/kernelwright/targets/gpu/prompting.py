"""What models are told of every language for a GPU."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from kernelwright.targets.base import Features

GPU_FOLDER = Path(__file__).parent / "prompts"
"""Prompt files that languages for GPUs share."""
TRITON_SIGN = r"^\s*(?:import triton\b|from triton\b)|@triton\.jit"
HIP_SIGN = r"^HIP_SOURCE\s*=|\bhipLaunchKernelGGL\b|#\s*include\s*[<\"]hip/"
APPROACHES = (
    "the plain way. Keep library calls for matrix products, convolutions and attention; write one simple "
    "kernel for the rest.",
    "fuse. Everything between library calls becomes one kernel that reads its inputs once and writes its "
    "outputs once.",
    "algebra first. Remove work that need not be done at all, then fuse what is left.",
    "write everything yourself, the heaviest operator included, in tiles that stay in registers and shared "
    "memory.",
)
ADVICE = {
    "memory": "fewer bytes, fewer passes, wide loads by neighbouring threads, enough of them under way, "
    "values kept in registers or shared memory.",
    "compute": "matrix units where the tolerance allows them, reuse in registers and shared memory, "
    "independent accumulators, fewer and cheaper instructions, all of the device busy, algebra that removes "
    "work.",
}
WATCH = {
    "memory": (
        "gpu.dram_fraction",
        "gpu.l2_hit_rate",
        "gpu.sectors_per_load",
        "gpu.sectors_per_store",
        "aot.load_bytes",
        "aot.store_bytes",
    ),
    "compute": (
        "gpu.sm_fraction",
        "gpu.tensor_fraction",
        "gpu.active_lanes",
        "aot.matrix_instructions",
        "aot.occupancy",
        "aot.spills",
        "aot.branches",
    ),
}
"""Source: cuPilot's notes name throughput of the SMs, tensor cores and branches on one side of the ridge,
bandwidth, L2 hits and vector access on the other; what a compiler says ahead of time is ours."""
CAUSES = (
    "On a GPU also: does a block reach beyond its tensor without a mask or a condition? Do blocks or threads "
    "write to the same place, or read before a barrier? Is a block too large for registers or shared memory? "
    "Does an index pass 2**31? Does an operand lie on the processor?"
)
"""What else makes a kernel fail on a GPU."""


class GpuCodeFeatures(Features):
    """The same of a source for a GPU."""

    structure: Literal["pointwise", "reduction", "scan", "window", "matmul", "mixed"] | None = None
    """Shape of the hottest kernel."""
    passes_over_memory: int | None = Field(default=None, ge=0)
    """How often the largest tensor is read or written in one call."""
    n_kernels: int | None = Field(default=None, ge=0)
    """Launches of own kernels in one call."""
    is_coalesced: bool | None = None
    """Neighbouring threads of the hottest kernel touch neighbouring addresses."""
    has_reuse: bool | None = None
    """Values are used more than once after being loaded, from registers or shared memory."""
    uses_matrix_units: bool | None = None
    """Products go through tl.dot or matrix instructions."""
    has_tail_handling: bool | None = None
    """Blocks may reach beyond their tensor: masks or conditions keep them in."""
    uses_transcendentals: bool | None = None
    """exp, log, tanh, erf and their like."""
    n_library_calls: int | None = Field(default=None, ge=0)
    """Operators of torch called in forward."""
    n_intermediates: int | None = Field(default=None, ge=0)
    """Tensors allocated in forward that are not returned."""
