"""Successive halving with paired timings: each rung times what is left, in turn and more often."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.core.intervals import Interval

FIRST_ROUNDS = 3
"""Turns in which every point is timed once on the first rung."""
KEPT = 0.4
"""Share of the points that a rung leaves."""
FINALISTS = 3
"""Points that are timed to the end."""

Time = Callable[[Sequence[int], int], Mapping[int, Sequence[float]]]
"""Points and turns -> milliseconds of each point, turn by turn; a point that fails is left out."""


@dataclass
class Rungs:
    """What the rungs came to."""

    ratios: dict[int, float] = field(default_factory=dict)
    """Point -> its time over the base's, the median over turns; below 1 is faster."""
    intervals: dict[int, Interval] = field(default_factory=dict)
    """Point -> 95 % interval of the ratio, from the turns of its last rung."""
    times: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """Point -> milliseconds of a call, turn by turn of its last rung."""
    survivors: tuple[int, ...] = ()
    """The last ones, fastest first; the base is among them only if it is as fast."""
    failed: set[int] = field(default_factory=set)


def halve(
    time: Time,
    points: Sequence[int],
    base: int,
    *,
    is_over: Callable[[], bool],
    bar: float = math.inf,
    first_rounds: int = FIRST_ROUNDS,
) -> Rungs:
    """Return the fastest points; the base is timed in every turn, and all are held against it.

    Turns of one rung are paired: what else the machine does in a turn meets the base as well. Points that a
    rung leaves above the ratio ``bar`` are timed no more.
    """
    found = Rungs()
    left = [point for point in points if point != base]
    rounds = first_rounds
    while left:
        measured = time([base, *left], rounds)
        own = measured.get(base)
        if not own:
            break
        found.failed |= set(left) - set(measured)
        found.times[base] = tuple(own)
        for point in left:
            if point in measured:
                turns = [a / b for a, b in zip(measured[point], own, strict=False)]
                found.ratios[point] = statistics.median(turns)
                found.intervals[point] = median_interval(turns)
                found.times[point] = tuple(measured[point])
        left = sorted((p for p in left if p in measured), key=lambda p: found.ratios[p])
        found.survivors = tuple(left)
        left = [point for point in left if found.ratios[point] <= bar]
        if (len(left) <= FINALISTS and rounds > first_rounds) or is_over():
            break
        left = left[: max(FINALISTS, round(KEPT * len(left)))]
        rounds *= 2
    return found


def median_interval(turns: Sequence[float], coverage: float = 0.95) -> Interval:
    """Return the interval of a median by order statistics, which a few disturbed turns do not widen.

    Below six observations no interval covers 95 %: it is their range then.
    """
    ordered, n = sorted(turns), len(turns)
    outside, left = 0, 0.0
    while outside < n // 2 and left + 2 * math.comb(n, outside) / 2**n <= 1 - coverage:
        left += 2 * math.comb(n, outside) / 2**n
        outside += 1
    cut = max(outside - 1, 0)
    return Interval(ordered[cut], ordered[n - 1 - cut])
