"""What a prompt says of the processor besides its peaks: caches by level, rates, functions."""

from kernelwright.core.machine import Machine
from kernelwright.core.roofline import MEMORY, LevelRate, Peaks

TIMED = (
    "- Calls are timed in turn with eager, on two or three sets of inputs: what the other side's calls leave "
    "of them in cache is there. Outputs lie in memory that the process keeps, so no page is fresh; a final "
    "also times an ordinary process, where pages of large outputs may be. Milliseconds of two minutes do not "
    "compare, ratios do."
)
"""How the referee times on the processor, as far as a writer of kernels can use it."""
_STEPS = ((1 << 20, "MiB"), (1 << 10, "KiB"))


def hardware_lines(machine: Machine, peaks: Peaks) -> list[str]:
    """Return one line each; none for what an older record, or a device that is no processor, does not say."""
    lines = []
    if machine.vector_bytes:
        lines.append(f"- Vectors of {machine.vector_bytes} bytes ({machine.vector_bytes // 4} float32).")
    if peaks.fma_in_flight is not None:
        lines.append(
            f"- Multiply-adds are at their rate with {peaks.fma_in_flight:.0f} independent vector "
            "accumulators in each thread (latency times ports); "
            f"one alone reaches {100 / peaks.fma_in_flight:.0f} %."
        )
    if machine.isa:
        lines.append(f"- Instruction set: {', '.join(machine.isa)}.")
    if machine.compiler:
        lines.append(f"- Compiler: {machine.compiler}.")
    for rate in peaks.levels:
        lines.append(_rate_line(machine, rate))
    if peaks.curve:
        points = ", ".join(f"{_size(point.working_set)} {point.gbps:.3g}" for point in peaks.curve)
        lines.append(f"- GB/s by the bytes that a call touches, all threads: {points}.")
    if peaks.functions:
        rates = ", ".join(f"{name} {rate:.3g}" for name, rate in peaks.functions)
        lines.append(f"- Elementary functions at best, 1e9 a second on all threads: {rates}.")
    if peaks.levels:
        lines.append(TIMED)
    if peaks.is_noisy:
        lines.append("- Other work disturbed the measurement of these rates; they may be too low.")
    return lines


def _rate_line(machine: Machine, rate: LevelRate) -> str:
    threads = "1 thread" if rate.threads == 1 else f"{rate.threads} threads"
    place = _place(machine, rate.level)
    rates = f"read {rate.read_gbps:.3g}, write {rate.write_gbps:.3g}, copy {rate.copy_gbps:.3g} GB/s"
    return f"- {place}, {threads}: {rates}."


def _place(machine: Machine, level: int) -> str:
    if level == MEMORY:
        return "Memory"
    cache = machine.cache(level)
    if cache is None:
        return f"L{level}"
    shared = "" if cache.shared_by == 1 else f" for {cache.shared_by} cores"
    each = "" if cache.instances == 1 else f"{cache.instances} x "
    return f"L{level} ({each}{_size(cache.instance_bytes)}{shared})"


def _size(count: int) -> str:
    for step, name in _STEPS:
        if count >= step:
            return f"{count / step:.3g} {name}"
    return f"{count} bytes"
