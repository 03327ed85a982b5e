"""What one built Triton kernel is: its registers, memory, occupancy and instructions."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

from kernelwright.core.evidence import FactValue
from kernelwright.targets.gpu.aot.amdgcn import parse_amd_metadata, parse_amdgcn
from kernelwright.targets.gpu.aot.mix import mix_facts
from kernelwright.targets.gpu.aot.ptxas import parse_ptxas, parse_resource_usage
from kernelwright.targets.gpu.aot.resources import KernelResources, resource_facts
from kernelwright.targets.gpu.aot.sass import parse_sass
from kernelwright.targets.gpu.facts import GpuFacts, gpu_facts
from kernelwright.targets.gpu.inspect.inspection import KernelOutcome
from kernelwright.targets.gpu.limits import GpuArchitecture

TENSOR_MEMORY_COLUMNS = 512
"""Of an SM of sm_100; Triton's own limit (triton/compiler/compiler.py, _init_handles)."""
GRID_LIMITS = (2**31 - 1, 65535, 65535)
"""CUDA C++ programming guide, technical specifications: largest grid."""
_TOOL_S = 60.0


@dataclass(frozen=True)
class BuiltCode:
    """What the compiler made of a kernel; ``facts`` is empty where its reports could not be read."""

    facts: dict[str, FactValue]
    outcome: KernelOutcome
    detail: str = ""


def examine(kernel: Any, gpu: GpuFacts, ptxas_log: str, tools: Any) -> BuiltCode:
    """Return what is known of a kernel that Triton has compiled.

    Args:
        kernel: Triton's CompiledKernel.
        gpu: the device it was compiled for.
        ptxas_log: what ``ptxas -v`` said while it was built; empty: unknown, spills are then only known
            where there are none.
        tools: ``triton.knobs.nvidia``, which knows where the disassembler is.
    """
    limits = gpu.limits
    name, asm, metadata = kernel.metadata.name, kernel.asm, kernel.metadata
    found = _nvidia(name, asm["cubin"], ptxas_log, tools) if "cubin" in asm else _amd(name, asm["amdgcn"])
    if found is None:
        return BuiltCode({}, KernelOutcome.FITS, "the compiler's reports could not be read")
    resources, mix = found
    threads = metadata.num_warps * limits.warp_lanes
    own_shared = max(metadata.shared - resources.static_shared_bytes, 0)
    facts = resource_facts(resources, limits, block_threads=threads, dynamic_shared_bytes=own_shared)
    facts = {**facts, **mix, **gpu_facts(gpu)}
    problem = launch_problem(facts, limits, getattr(metadata, "tmem_size", 0) or 0)
    if problem:
        return BuiltCode(facts, KernelOutcome.CANNOT_LAUNCH, problem)
    spills = bool(facts["aot.spills"])
    return BuiltCode(facts, KernelOutcome.SPILLS if spills else KernelOutcome.FITS)


def _nvidia(
    name: str, cubin: bytes, log: str, tools: Any
) -> tuple[KernelResources, dict[str, FactValue]] | None:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        dump = _tool([tools.cuobjdump.path, "--dump-resource-usage", file.name])
        code = _tool([tools.nvdisasm.path, file.name])
    used, reported = parse_resource_usage(dump).get(name), parse_ptxas(log).get(name)
    resources = reported or used
    mix = parse_sass(code).get(name)
    if resources is None or mix is None:
        return None
    if resources.spills is None and not resources.local_bytes:
        resources = resources.model_copy(update={"spills": 0})  # no local memory: nowhere to spill to
    return resources, mix_facts(mix)


def _amd(name: str, assembly: str) -> tuple[KernelResources, dict[str, FactValue]] | None:
    resources, mix = parse_amd_metadata(assembly).get(name), parse_amdgcn(assembly).get(name)
    return None if resources is None or mix is None else (resources, mix_facts(mix))


def _tool(command: list[str]) -> str:
    """Return what a binary tool prints; nothing where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TOOL_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def launch_problem(facts: dict[str, FactValue], limits: GpuArchitecture, tensor_memory: int = 0) -> str:
    """Say why no SM or CU can hold a block, or nothing; the facts must hold its threads and memory."""
    threads, shared, registers = facts["aot.block_threads"], facts["aot.shared_bytes"], facts["aot.registers"]
    assert isinstance(threads, int) and isinstance(shared, int)
    if threads > limits.max_block_threads:
        return f"a block of {threads} threads, {limits.name} takes {limits.max_block_threads}"
    if shared > limits.shared_block_bytes:
        return f"{shared} bytes of shared memory, a block on {limits.name} has {limits.shared_block_bytes}"
    if tensor_memory > TENSOR_MEMORY_COLUMNS:
        return f"{tensor_memory} columns of tensor memory, an SM has {TENSOR_MEMORY_COLUMNS}"
    if facts["aot.resident_blocks"] == 0:
        return f"{threads} threads of {registers} registers do not fit the registers of {limits.name}"
    return ""


def grid_problem(grid: tuple[int, ...], limits: GpuArchitecture) -> str:
    """Say why a grid cannot be launched, or nothing; AMD's limits, on threads, are not checked."""
    if limits.vendor != "nvidia":
        return ""
    for axis, size, most in zip("xyz", grid, GRID_LIMITS, strict=False):
        if size > most:
            return f"a grid of {size} programs along {axis}, at most {most} can be launched"
    return ""


def waves(grid: tuple[int, ...], facts: dict[str, FactValue]) -> float | None:
    """Return how often the grid fills the device; None where no block fits or nothing is known."""
    resident, units = facts.get("aot.resident_blocks"), facts.get("gpu.units")
    if not isinstance(resident, int) or not isinstance(units, int) or not resident * units:
        return None
    programs = 1
    for size in grid:
        programs *= size
    return programs / (resident * units)


def first_line(text: str) -> str:
    """Return the most telling line of a compiler's message: one that says error, else the last."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"[Ee]rror", line)]
    return (telling or lines or [""])[-1][:300]
