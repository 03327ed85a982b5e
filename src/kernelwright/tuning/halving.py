"""Successive halving with paired timings: each rung times what is left, in turn and more often."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
    survivors: tuple[int, ...] = ()
    """The last ones, fastest first; the base is among them only if it is as fast."""
    failed: set[int] = field(default_factory=set)


def halve(time: Time, points: Sequence[int], base: int, *, is_over: Callable[[], bool]) -> Rungs:
    """Return the fastest points; the base is timed in every turn, and all are held against it.

    Turns of one rung are paired: what else the machine does in a turn meets the base as well.
    """
    found = Rungs()
    left = [point for point in points if point != base]
    rounds = FIRST_ROUNDS
    while left:
        measured = time([base, *left], rounds)
        own = measured.get(base)
        if not own:
            break
        found.failed |= set(left) - set(measured)
        for point in left:
            if point in measured:
                pairs = zip(measured[point], own, strict=False)
                found.ratios[point] = statistics.median(a / b for a, b in pairs)
        left = sorted((p for p in left if p in measured), key=lambda p: found.ratios[p])
        found.survivors = tuple(left)
        if (len(left) <= FINALISTS and rounds > FIRST_ROUNDS) or is_over():
            break
        left = left[: max(FINALISTS, round(KEPT * len(left)))]
        rounds *= 2
    return found
