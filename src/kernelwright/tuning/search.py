"""Chooses among points: generations drawn by lot and around the best so far, each halved down to a few.

What a point is, is the caller's: the open parameters of a source, or the decisions of a space.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.core.closing import ParameterResponse, ValueResponse
from kernelwright.core.errors import UserError
from kernelwright.core.intervals import Interval
from kernelwright.core.plan import ParamValue
from kernelwright.tuning.halving import halve

GENERATION = 12
"""Points of one generation; ours: some ten seconds of building on two cores."""
BUILD_SHARE = 0.5
"""Share of the time that building one generation may take; ours."""
LOAD_S, TIME_S, GRACE_S = 180.0, 120.0, 10.0
"""Seconds that building, and one rung, may take; and that building may go beyond the end."""

SAME = Interval(1.0, 1.0)
WORTH = 0.98
"""Time over the default's above which a point is taken for no faster; ours."""

Values = Mapping[str, ParamValue]


class PointSource(Protocol):
    """Makes points and their sources."""

    def base(self) -> Values:
        """Return the default point."""
        ...

    def draw(self, rng: random.Random, best: Sequence[Values]) -> Values | None:
        """Return a point to try: by lot, or near the best ones; None where there is none left."""
        ...

    def source(self, values: Values) -> str | None:
        """Return the closed source of a point; None where it is no program."""
        ...


class Timer(Protocol):
    """Builds and times sources."""

    def load(self, sources: Mapping[int, str], timeout_s: float) -> dict[int, str | None]:
        """Return what is wrong with each."""
        ...

    def time(self, points: Sequence[int], rounds: int, timeout_s: float) -> dict[int, list[float]]:
        """Return milliseconds, turn by turn."""
        ...


@dataclass
class Tried:
    """One point that was timed, or could not be."""

    values: Values
    source: str
    ratio: float | None = None
    """To the default point's time, below 1 is faster; None: it could not be timed."""
    interval: Interval = SAME
    """Of the ratio, 95 %; of the default point, 1."""
    why: str | None = None


@dataclass
class TuningRun:
    """Every point that was tried, in order; the first is the default."""

    tried: list[Tried] = field(default_factory=list)
    seconds: float = 0.0
    is_exhausted: bool = False
    """Every point there is was tried."""

    @property
    def ranked(self) -> list[Tried]:
        """The points that could be timed, fastest first."""
        return sorted((t for t in self.tried if t.ratio is not None), key=lambda t: t.ratio or 0.0)

    @property
    def chosen(self) -> Tried:
        """The fastest point; the default where that is hardly slower."""
        return next((t for t in self.ranked if (t.ratio or 1.0) < WORTH), self.tried[0])

    @property
    def n_failed(self) -> int:
        """Points that did not build, run, or agree roughly with the reference."""
        return sum(tried.why is not None for tried in self.tried)


def tune_points(
    points: PointSource,
    timer: Timer,
    *,
    seconds: float,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> TuningRun:
    """Try generations of points until the seconds are used or there are no more.

    The clock starts once the default point runs. A generation that was begun is timed to its first rung if it
    is built within ``GRACE_S`` of the end.

    Raises:
        UserError: the default point does not build or run.
    """
    rng, run = random.Random(seed), TuningRun()
    default = points.base()
    run.tried.append(Tried(default, points.source(default) or "", 1.0))
    began = clock()
    wrong = timer.load({0: run.tried[0].source}, LOAD_S)[0]
    if wrong is not None:
        raise UserError(f"the kernel does not run with its defaults: {wrong}")
    seen = {run.tried[0].source}
    started = clock()
    size = _affordable(seconds, started - began)
    deadline = started + seconds
    while clock() < deadline and not run.is_exhausted:
        leaders = [tried.values for tried in run.ranked[:4]]
        fresh = _generation(points, rng, leaders, seen, size)
        if not fresh:
            run.is_exhausted = True
            break
        first = len(run.tried)
        run.tried += fresh
        numbers = range(first, len(run.tried))
        limit_s = min(LOAD_S, deadline - clock() + GRACE_S)
        for number, why in timer.load({n: run.tried[n].source for n in numbers}, limit_s).items():
            run.tried[number].why = why
        able = [n for n in numbers if run.tried[n].why is None]
        rungs = halve(
            lambda ids, rounds: timer.time(ids, rounds, TIME_S), able, 0, is_over=lambda: clock() > deadline
        )
        for number, ratio in rungs.ratios.items():
            run.tried[number].ratio = ratio
            run.tried[number].interval = rungs.intervals[number]
    run.seconds = clock() - started
    return run


def _affordable(seconds: float, load_s: float) -> int:
    """Return the points of a generation: fewer where building one, as the default, takes much of the time."""
    return max(2, min(GENERATION, int(BUILD_SHARE * seconds / max(load_s, 1e-3))))


def _generation(
    points: PointSource, rng: random.Random, leaders: Sequence[Values], seen: set[str], size: int
) -> list[Tried]:
    fresh: list[Tried] = []
    for _ in range(20 * size):
        values = points.draw(rng, leaders)
        source = None if values is None else points.source(values)
        if values is not None and source is not None and source not in seen:
            seen.add(source)
            fresh.append(Tried(values, source))
        if len(fresh) >= size:
            break
    return fresh


def responses(run: TuningRun) -> tuple[ParameterResponse, ...]:
    """Return what each name did, by value and each by its fastest point, the widest spread first."""
    default = run.tried[0].values
    found: list[tuple[float, ParameterResponse]] = []
    for name in sorted({name for tried in run.ranked for name in tried.values}):
        by_value: dict[ParamValue, list[Tried]] = {}
        for tried in run.ranked:
            by_value.setdefault(tried.values.get(name, default.get(name, "default")), []).append(tried)
        if len(by_value) > 1:
            ratios = [points[0].ratio or 1.0 for points in by_value.values()]
            values = tuple(
                ValueResponse(
                    value=value,
                    low=points[0].interval.low,
                    high=points[0].interval.high,
                    n_points=len(points),
                )
                for value, points in by_value.items()
            )
            found.append((max(ratios) / min(ratios), ParameterResponse(name=name, values=values)))
    return tuple(response for _, response in sorted(found, key=lambda pair: -pair[0]))


def surface(run: TuningRun, count: int = 6) -> list[str]:
    """Return what was learned, in a few lines: by value, the time of the fastest point over the default's."""
    return [response.line for response in responses(run)[:count]]
