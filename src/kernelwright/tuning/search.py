"""Chooses among points: generations drawn by lot and around the best so far, each halved down to a few.

What a point is, is the caller's: the open parameters of a source, or the decisions of a space.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.core.errors import UserError
from kernelwright.core.plan import ParamValue
from kernelwright.tuning.halving import halve

GENERATION = 12
"""Points of one generation; ours: some ten seconds of building on two cores."""
LOAD_S, TIME_S = 180.0, 120.0
"""Seconds that building, and one rung, may take."""

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


def tune_points(
    points: PointSource,
    timer: Timer,
    *,
    seconds: float,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> TuningRun:
    """Try generations of points until the seconds are used or there are no more.

    The clock starts once the default point runs. A generation that was begun is timed to its first rung.

    Raises:
        UserError: the default point does not build or run.
    """
    rng, run = random.Random(seed), TuningRun()
    default = points.base()
    run.tried.append(Tried(default, points.source(default) or "", 1.0))
    wrong = timer.load({0: run.tried[0].source}, LOAD_S)[0]
    if wrong is not None:
        raise UserError(f"the kernel does not run with its defaults: {wrong}")
    seen = {run.tried[0].source}
    started = clock()
    deadline = started + seconds
    while clock() < deadline and not run.is_exhausted:
        leaders = [tried.values for tried in run.ranked[:4]]
        fresh = _generation(points, rng, leaders, seen)
        if not fresh:
            run.is_exhausted = True
            break
        first = len(run.tried)
        run.tried += fresh
        numbers = range(first, len(run.tried))
        for number, why in timer.load({n: run.tried[n].source for n in numbers}, LOAD_S).items():
            run.tried[number].why = why
        able = [n for n in numbers if run.tried[n].why is None]
        rungs = halve(
            lambda ids, rounds: timer.time(ids, rounds, TIME_S), able, 0, is_over=lambda: clock() > deadline
        )
        for number, ratio in rungs.ratios.items():
            run.tried[number].ratio = ratio
    run.seconds = clock() - started
    return run


def _generation(
    points: PointSource, rng: random.Random, leaders: Sequence[Values], seen: set[str]
) -> list[Tried]:
    fresh: list[Tried] = []
    for _ in range(20 * GENERATION):
        values = points.draw(rng, leaders)
        source = None if values is None else points.source(values)
        if values is not None and source is not None and source not in seen:
            seen.add(source)
            fresh.append(Tried(values, source))
        if len(fresh) >= GENERATION:
            break
    return fresh


def surface(run: TuningRun, count: int = 6) -> list[str]:
    """Return what was learned, in a few lines: for each name the best ratio by value, widest spread first."""
    best: dict[str, dict[ParamValue, float]] = {}
    default = run.tried[0].values
    timed = run.ranked
    names = sorted({name for tried in timed for name in tried.values})
    for name in names:
        for tried in timed:
            value = tried.values.get(name, default.get(name, "default"))
            known = best.setdefault(name, {})
            known[value] = min(known.get(value, float("inf")), tried.ratio or 1.0)
    lines = []
    for name, by_value in best.items():
        if len(by_value) > 1:
            spread = max(by_value.values()) / min(by_value.values())
            shown = ", ".join(f"{v}: {r:.2f}" for v, r in sorted(by_value.items(), key=lambda pair: pair[1]))
            lines.append((spread, f"{name}: best time against the default by value: {shown}"))
    return [line for _, line in sorted(lines, key=lambda pair: -pair[0])][:count]
