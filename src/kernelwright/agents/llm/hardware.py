"""The machine's line in prompts: what a kernel is written for."""

from kernelwright.agents.llm.formatting import number
from kernelwright.agents.problem import Problem
from kernelwright.core.machine import Cache, Machine

KIB, MIB = 1 << 10, 1 << 20


def processor_lines(problem: Problem) -> list[str]:
    """Return facts of the processor, one a line: instruction set, caches, bandwidth by size, compiler.

    What the machine's probes could not find out is left out. Empty where candidates run on a GPU.
    """
    machine = problem.machine
    if machine.accelerator is not None:
        return []
    lines = [_instructions(machine), *_caches(machine), *_bandwidths(problem), _compiler(machine)]
    return [f"- {line}" for line in lines if line]


def _instructions(machine: Machine) -> str:
    width = machine.vector_bytes
    vectors = f"vectors of {width} bytes ({width // 4} float32)" if width else ""
    extensions = f"instruction set {', '.join(machine.isa)}" if machine.isa else ""
    return "; ".join(part for part in (vectors, extensions) if part)


def _caches(machine: Machine) -> list[str]:
    named = [_cache(cache) for cache in machine.caches]
    return [f"Caches: {'; '.join(named)}."] if named else []


def _cache(cache: Cache) -> str:
    size = cache.instance_bytes
    shown = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    sharing = "for each core" if cache.shared_by <= 1 else f"shared by {cache.shared_by} cores"
    return f"L{cache.level} {shown} {sharing}"


def _bandwidths(problem: Problem) -> list[str]:
    curve = problem.peaks.curve
    shown = [f"{number(point.gbps)} GB/s at {_size(point.working_set)}" for point in curve]
    return [f"Bandwidth by bytes touched: {', '.join(shown)}."] if shown else []


def _size(size: int) -> str:
    return f"{size / MIB:.3g} MiB" if size >= MIB else f"{size / KIB:.3g} KiB"


def _compiler(machine: Machine) -> str:
    return f"Compiler: {machine.compiler}." if machine.compiler else ""
