"""What tuning measured before, on this machine or on others: outcomes by point, for tuning here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core.plan import ParamValue


@dataclass(frozen=True)
class EarlierTuning:
    """Points of one machine and one tuning run; parameters have the names and values they have here."""

    machine: str
    points: tuple[tuple[Mapping[str, ParamValue], float], ...]
    """Values, and the logarithm of the time over some time that is the same for all of them."""

    @classmethod
    def of(
        cls, machine: str, times: Sequence[tuple[Mapping[str, ParamValue], float | None]]
    ) -> "EarlierTuning":
        """Take points and times, or times over the default's; None: the point failed."""
        able = [time for _, time in times if time is not None]
        if not able:
            return cls(machine, ())
        slowest = max(able)
        return cls(machine, tuple((values, math.log(time or slowest)) for values, time in times))


def most_telling(earlier: EarlierTuning, count: int) -> tuple[tuple[Mapping[str, ParamValue], float], ...]:
    """Return at most ``count`` points: the fastest ones as half of them, and some from all others."""
    ordered = sorted(earlier.points, key=lambda point: point[1])
    if len(ordered) <= count:
        return tuple(ordered)
    n_fast = count // 2
    rest, n_rest = ordered[n_fast:], count - n_fast
    return tuple(ordered[:n_fast]) + tuple(rest[i * len(rest) // n_rest] for i in range(n_rest))


def best_elsewhere(earlier: Sequence[EarlierTuning], count: int) -> list[Mapping[str, ParamValue]]:
    """Return the fastest points of all machines in turn, each point once."""
    ordered = [sorted(one.points, key=lambda point: point[1]) for one in earlier]
    found: dict[tuple[tuple[str, ParamValue], ...], Mapping[str, ParamValue]] = {}
    for place in range(max(map(len, ordered), default=0)):
        for points in ordered:
            if place < len(points) and len(found) < count:
                values = points[place][0]
                found.setdefault(tuple(sorted(values.items())), values)
    return list(found.values())
