"""What a machine can do at best, and what a task needs at least."""

from typing import Literal

from kernelwright.core.frozen import Frozen


class Peaks(Frozen):
    """Measured ceilings of one device."""

    device: str
    """Model name, e.g. of the processor."""
    n_threads: int
    bandwidth_gbps: float
    """Best sustained bandwidth to memory, bytes read plus bytes written, 1e9 bytes per second."""
    cache_bandwidth_gbps: float
    """The same with a working set that stays in the caches."""
    cache_bytes: int
    """Working sets up to this size are judged by the cache figure."""
    fma_gflops: float
    """Float32 fused multiply-adds on all threads, counting two operations each, 1e9 per second."""
    source: str
    """How the figures were obtained: ``measured 2026-11-20`` or a datasheet."""


class Work(Frozen):
    """What a graph must do, whatever the implementation."""

    flops: int
    """Floating-point operations of the graph after the algebra nobody can avoid; see tasks/work.py."""
    min_bytes: int
    """Each input, used parameter and output moved once."""

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / max(self.min_bytes, 1)


class Floor(Frozen):
    """The roofline bound for one workload on one machine."""

    ms: float
    bound_by: Literal["memory", "compute"]
    work: Work


def floor(work: Work, peaks: Peaks) -> Floor:
    """Return the larger of the time to move the bytes and the time to do the arithmetic."""
    fits = work.min_bytes <= peaks.cache_bytes
    gbps = peaks.cache_bandwidth_gbps if fits else peaks.bandwidth_gbps
    memory_ms = work.min_bytes / gbps / 1e6
    compute_ms = work.flops / peaks.fma_gflops / 1e6
    bound_by: Literal["memory", "compute"] = "memory" if memory_ms >= compute_ms else "compute"
    return Floor(ms=max(memory_ms, compute_ms), bound_by=bound_by, work=work)
