"""Figures of one evaluation over its workloads, and their text forms."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from kernelwright.core.evaluation import Evaluation, WorkloadResult
from kernelwright.core.evidence import FactValue


class RatioInterval(NamedTuple):
    """A speedup with its 95 % interval; over several workloads the geometric mean of each of the three."""

    ratio: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        """True when the interval excludes 1 on the upper side."""
        return self.low > 1.0

    @property
    def is_slower(self) -> bool:
        """True when the interval excludes 1 on the lower side."""
        return self.high < 1.0

    def __str__(self) -> str:
        return f"{times(self.ratio)} [{self.low:.2f}, {self.high:.2f}]"


def geomean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of numbers that are not negative, None when there are none."""
    logs = [math.log(value) if value else -math.inf for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def speedup_over(evaluation: Evaluation, baseline: str) -> RatioInterval | None:
    """Return the speedup over the named baseline; None where it was not measured.

    In an ordinary process where that was measured. Over several workloads, the interval's ends are the
    geometric means of the workloads' ends. This interval is wider than that of the mean would be.
    """
    return speedup_of(evaluation.told, baseline)


def ways_timed(evaluation: Evaluation) -> dict[str, tuple[WorkloadResult, ...]]:
    """Return the ways in which an evaluation was timed, in words, with results; first the one to quote."""
    if not evaluation.ordinary:
        return {"": evaluation.results}
    alone = tuple(one.one_thread for one in evaluation.ordinary if one.one_thread is not None)
    kept = {"with memory kept between calls": evaluation.results}
    return {"": evaluation.told, **({"with one thread": alone} if alone else {}), **kept}


def speedup_of(results: Iterable[WorkloadResult], baseline: str) -> RatioInterval | None:
    """Return ``speedup_over`` for some results of an evaluation."""
    found = [s for r in results if (s := r.speedup(baseline)) is not None]
    parts = [geomean(getattr(s, name) for s in found) for name in ("ratio", "low", "high")]
    if any(part is None for part in parts):
        return None
    ratio, low, high = (float(part) for part in parts if part is not None)
    return RatioInterval(ratio, low, high)


def latency_ms(evaluation: Evaluation) -> float | None:
    """Return the geometric mean of the workloads' median latencies."""
    return geomean(result.candidate.median_ms for result in evaluation.told)


def baseline_ms(evaluation: Evaluation, baseline: str) -> float | None:
    """Return the geometric mean of a baseline's median latencies over the workloads that have it."""
    return geomean(r.baselines[baseline].median_ms for r in evaluation.told if baseline in r.baselines)


def floor_ms(evaluation: Evaluation) -> float | None:
    """Return the geometric mean of the workloads' floors; None when any workload has no floor."""
    floors = [result.floor_ms for result in evaluation.told if result.floor_ms is not None]
    return geomean(floors) if len(floors) == len(evaluation.told) else None


def floor_fraction(evaluation: Evaluation) -> float | None:
    """Return the geometric mean of floor over latency; None when any workload has no floor."""
    fractions = [result.floor_fraction for result in evaluation.told]
    known = [fraction for fraction in fractions if fraction is not None]
    return geomean(known) if len(known) == len(fractions) else None


def times(ratio: float) -> str:
    """Spell a ratio with three significant figures or two decimals: ``0.97x``, ``2.41x``, ``13.2x``."""
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.3g}x"


def millis(ms: float) -> str:
    """Spell a latency in the unit that fits: ``850 ns``, ``12.3 us``, ``4.56 ms``, ``1.20 s``."""
    for limit, factor, unit in ((1e-3, 1e6, "ns"), (1.0, 1e3, "us"), (1e3, 1.0, "ms")):
        if ms < limit:
            return f"{ms * factor:.3g} {unit}"
    return f"{ms / 1e3:.3g} s"


def percent(fraction: float) -> str:
    """Spell a fraction as a percentage; one decimal below 10 %."""
    value = 100 * fraction
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def fact(value: FactValue) -> str:
    """Spell a fact for people: floats with four significant figures, bools as in skill files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def amount(value: float, unit: str) -> str:
    """Spell a large quantity with an SI prefix: ``1.23 GB``."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def duration(seconds: float) -> str:
    """Spell a duration: ``0.4 s``, ``12 s``, ``3 min 05 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
