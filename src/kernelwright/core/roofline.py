"""What a machine can do at best, and what a task needs at least."""

import datetime
from typing import Literal

from kernelwright.core.frozen import Frozen


class BandwidthPoint(Frozen):
    """Best sustained bandwidth with one working-set size."""

    working_set: int
    """Bytes that a call touches."""
    gbps: float
    """Bytes read plus bytes written, 1e9 per second; best of all access patterns tried."""


class Spread(Frozen):
    """What the repeats of one measurement gave."""

    low: float
    median: float
    high: float
    repeats: int


class PeakSpread(Frozen):
    """How far the repeats of each figure of Peaks lie apart, in its unit."""

    bandwidth_gbps: Spread
    cache_bandwidth_gbps: Spread
    fma_gflops: Spread


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
    """Size of the private caches together; without a curve, smaller working sets get the cache figure."""
    fma_gflops: float
    """Float32 fused multiply-adds on all threads, counting two operations each, 1e9 per second."""
    source: str
    """How the figures were obtained: ``measured 2026-11-20`` or a datasheet."""
    measured_on: datetime.date | None = None
    """Day of the last measurement; None for figures of a datasheet and of older records."""
    spread: PeakSpread | None = None
    """Of the last measurement, which may have come out below the figures here: the better ones are kept."""
    curve: tuple[BandwidthPoint, ...] = ()
    """By growing working set; large shared caches make it fall in several steps. Empty: two levels."""

    def bandwidth_at(self, working_set: int) -> float:
        """Return the bandwidth (GB/s) that no kernel with this working set (bytes) can exceed.

        That is the figure of the next smaller size measured, since bandwidth only falls with size, or of
        a larger one that did better: a dip at one size is noise of the measurement, never a ceiling.
        """
        if not self.curve:
            return self.cache_bandwidth_gbps if working_set <= self.cache_bytes else self.bandwidth_gbps
        start = max((i for i, p in enumerate(self.curve) if p.working_set <= working_set), default=0)
        return max(point.gbps for point in self.curve[start:])


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
    """Return the larger of the time to move the bytes and the time to do the arithmetic.

    A lower bound: caches are taken to be as warm as a repeated call can leave them.
    """
    memory_ms = work.min_bytes / peaks.bandwidth_at(work.min_bytes) / 1e6
    compute_ms = work.flops / peaks.fma_gflops / 1e6
    bound_by: Literal["memory", "compute"] = "memory" if memory_ms >= compute_ms else "compute"
    return Floor(ms=max(memory_ms, compute_ms), bound_by=bound_by, work=work)
