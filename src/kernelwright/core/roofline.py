"""The roofline: what a machine can do at best, and the least time that a task needs on it."""

import datetime
from typing import Literal

from kernelwright.core.frozen import Frozen

PROBE_VERSION = 2
"""Of the probe in ``machine/``. What an older one measured is not used: see ``Peaks.is_outdated``."""
AGREEMENT = 1.1
"""Two methods that measure the same rate must agree within this factor; our choice."""
MEMORY = 0
"""The level of a LevelRate that stands for main memory."""
SMOOTH = frozenset(("exp", "log", "tanh", "erf"))
"""Functions of one variable. A cheaper way for one of them, such as a table and a polynomial, is one for the
others too, so a floor counts all at the rate of the fastest."""


class BandwidthPoint(Frozen):
    """Best sustained bandwidth with one working-set size."""

    working_set: int
    """Bytes that a call touches."""
    gbps: float
    """Bytes read plus bytes written, 1e9 per second: of the best access pattern the median over rounds."""
    high_gbps: float | None = None
    """Highest that any round saw; None in older records."""


class LevelRate(Frozen):
    """What threads move within one level of the memory hierarchy, 1e9 bytes read or written per second."""

    level: int
    """Of the caches, 1 the nearest to the core; ``MEMORY``: main memory."""
    threads: int
    working_set: int
    """Bytes that the threads touch together: half of the level's caches that they reach."""
    read_gbps: float
    write_gbps: float
    copy_gbps: float
    """Bytes read plus bytes written."""


class FmaCheck(Frozen):
    """Evidence that the arithmetic probe did all the operations that it counts."""

    chains: int
    """Independent multiply-adds of one step."""
    instructions: int | None = None
    """Multiply-add instructions in the object code of the step; None: there is no disassembler."""
    compiled_gflops: float
    """Rate of the code that the compiler made from an expression."""
    written_gflops: float | None = None
    """Rate of the same steps written as instructions; None where we know no such instruction."""

    @property
    def is_whole(self) -> bool:
        """True when the code has every multiply-add; a compiler may unroll, hence whole multiples."""
        return self.instructions is None or (self.instructions > 0 and self.instructions % self.chains == 0)

    @property
    def do_agree(self) -> bool:
        """True when both methods gave the same rate; without a second method, when the code was counted."""
        if self.written_gflops is None:
            return self.instructions is not None
        low, high = sorted((self.compiled_gflops, self.written_gflops))
        return high <= AGREEMENT * low


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
    probe: int = 0
    """Version of the probe that measured them; 0: none of ours, or one of before there were versions."""
    measured_on: datetime.date | None = None
    """Day of the last measurement; None for figures of a datasheet and of older records."""
    spread: PeakSpread | None = None
    """Of the rounds of the measurement. The figures here are medians over rounds."""
    waited: float | None = None
    """Largest share of a sample for which a thread waited for a core, among the samples that the figures rest
    on; None where the system does not say."""
    is_noisy: bool = False
    """Other work on the machine disturbed the measurement, or its checks do not hold: the peaks are measured
    again when they are asked for next."""
    curve: tuple[BandwidthPoint, ...] = ()
    """By growing working set; large shared caches make it fall in several steps. Empty: two levels."""
    levels: tuple[LevelRate, ...] = ()
    """By level and number of threads: one, and all."""
    functions: tuple[tuple[str, float], ...] = ()
    """By name, 1e9 evaluations a second of ``exp``, ``log``, ``tanh``, ``erf``, ``sqrt`` and ``div``
    (a quotient) on all threads, in the cheapest way we know."""
    rounded_gflops: float | None = None
    """Like ``fma_gflops``, for products whose operands may be rounded to 16 bits. None: the processor has
    units for them that the probe does not know, so nothing bounds such products."""
    fma_check: FmaCheck | None = None
    fma_in_flight: float | None = None
    """Vector multiply-adds that a thread must have under way to be at ``fma_gflops``, each with its own
    accumulator: their latency times the ports for them. None: not measured."""

    def bandwidth_at(self, working_set: int) -> float:
        """Return the bandwidth (GB/s) that no kernel with this working set (bytes) can exceed.

        This is the best figure from the next smaller measured size on: bandwidth falls with size, so a dip
        at one size is noise of the measurement.
        """
        if not self.curve:
            return self.cache_bandwidth_gbps if working_set <= self.cache_bytes else self.bandwidth_gbps
        start = max((i for i, p in enumerate(self.curve) if p.working_set <= working_set), default=0)
        return max(point.gbps for point in self.curve[start:])

    @property
    def is_outdated(self) -> bool:
        """True when an older probe measured these figures on a processor: do not use them."""
        return self.probe < PROBE_VERSION and self.source.startswith("measured")

    def highest(self) -> "Peaks":
        """Return the peaks with the highest rate that any round saw in the place of each median."""
        seen = self.spread
        if seen is None:
            return self
        points = [p.model_copy(update={"gbps": max(p.gbps, p.high_gbps or 0.0)}) for p in self.curve]
        gain = max(1.0, seen.fma_gflops.high / self.fma_gflops)
        rounded = self.rounded_gflops
        return self.model_copy(
            update={
                "bandwidth_gbps": max(self.bandwidth_gbps, seen.bandwidth_gbps.high),
                "cache_bandwidth_gbps": max(self.cache_bandwidth_gbps, seen.cache_bandwidth_gbps.high),
                "fma_gflops": self.fma_gflops * gain,
                "rounded_gflops": None if rounded is None else rounded * gain,
                "curve": tuple(points),
            }
        )


class Work(Frozen):
    """What a graph must do, whatever the implementation."""

    flops: int
    """Floating-point operations of the graph that no implementation can avoid; see tasks/work.py."""
    min_bytes: int
    """Each input, used parameter and output moved once."""
    functions: tuple[tuple[str, int], ...] = ()
    """Evaluations that no algebra removes, with the names of ``Peaks.functions``; see tasks/functions.py.
    Values where a function is flat may need none."""
    may_round: bool = False
    """Operands of products may be rounded to 16 bits: by the tolerance, or because they have no more."""

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / max(self.min_bytes, 1)


class Floor(Frozen):
    """The roofline bound for one workload on one machine."""

    ms: float
    bound_by: Literal["memory", "compute"]
    work: Work
    functions_ms: float = 0.0
    """What the elementary functions alone take."""
    bare_ms: float | None = None
    """The bound without elementary functions. A kernel can avoid those where the values allow it, so only
    what lies below this is doubted; None: the same as ``ms``."""

    @property
    def least_ms(self) -> float:
        """The time that no kernel can go below, whatever the values are."""
        return self.ms if self.bare_ms is None else self.bare_ms

    def at_most(self, ms: float) -> "Floor":
        """Return the floor with no time above ``ms``, which a new measurement gave."""
        bare_ms = None if self.bare_ms is None else min(self.bare_ms, ms)
        functions_ms = min(self.functions_ms, ms)
        return self.model_copy(
            update={"ms": min(self.ms, ms), "bare_ms": bare_ms, "functions_ms": functions_ms}
        )

    @property
    def counts_products(self) -> bool:
        """True where products decide, counted term by term: algorithms with fewer operations may beat it."""
        return self.bound_by == "compute" and self.functions_ms < self.ms


def floor(work: Work, peaks: Peaks) -> Floor:
    """Return the largest of the times to move the bytes, to multiply and to evaluate the functions.

    A lower bound: caches are taken to be as warm as a repeated call can leave them, and all three to go on at
    the same time.
    """
    memory_ms = work.min_bytes / peaks.bandwidth_at(work.min_bytes) / 1e6
    rate = peaks.rounded_gflops if work.may_round and peaks.probe else peaks.fma_gflops
    compute_ms = 0.0 if rate is None else work.flops / rate / 1e6
    functions_ms = _functions_ms(work, peaks)
    bare_ms = max(memory_ms, compute_ms)
    bound_by: Literal["memory", "compute"] = (
        "memory" if memory_ms >= max(compute_ms, functions_ms) else "compute"
    )
    return Floor(
        ms=max(bare_ms, functions_ms),
        bound_by=bound_by,
        work=work,
        functions_ms=functions_ms,
        bare_ms=bare_ms,
    )


def _functions_ms(work: Work, peaks: Peaks) -> float:
    rates = dict(peaks.functions)
    rates |= dict.fromkeys(SMOOTH, max(rates.get(name, 0.0) for name in SMOOTH))
    known = [count / rates[name] for name, count in work.functions if rates.get(name)]
    return sum(known) / 1e6
