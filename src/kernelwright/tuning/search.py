"""Chooses among points: generations drawn by lot and around the best so far, each halved down to a few.

What a point is, is the caller's: the open parameters of a source, or the decisions of a space.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.core.closing import ParameterResponse, ValueResponse
from kernelwright.core.errors import UserError
from kernelwright.core.intervals import Interval
from kernelwright.core.plan import ParamValue
from kernelwright.memory.tuned import EarlierTuning, best_elsewhere
from kernelwright.tuning.guessing import Guess
from kernelwright.tuning.halving import FINALISTS, halve
from kernelwright.tuning.process import Shape

BASE = 0
"""Number of the default point."""
FIRST_GENERATION, LARGEST_GENERATION = 8, 48
"""Points of a generation; ours: small enough to learn from, large enough to keep all cores building."""
GENERATION_SHARE = 0.06
"""Share of the seconds that one generation may take, by what points have cost so far."""
BY_LOT = 0.1
"""Share of a generation that is drawn whatever is guessed."""
SPARE = 2
"""Points that are chosen for each that is built: some turn out to be no program, or one that is there."""
ROUNDS_OF_DRAWING = 4
"""Pools that are drawn before a generation goes on with fewer points."""
FINAL_SHARE = 0.1
"""Share of the seconds that is kept for timing the best of all generations against each other."""
FINAL_ROUNDS = 8
"""Turns of the first rung among those."""
SLOW = 1.6
"""A point whose first call takes so many times as long as the best one is timed no more."""
NEAR_BEST = 1.15
"""Neither is one above so many times the best ratio once it has been timed on a rung."""
WORDS = 120
"""Characters of a reason why points fail."""
LOAD_S = 180.0
"""Seconds that the default point may take to build and run."""

Values = Mapping[str, ParamValue]
_Key = tuple[tuple[str, ParamValue], ...]


class PointSource(Protocol):
    """Makes points and their sources."""

    def parameters(self) -> Mapping[str, tuple[ParamValue, ...]]:
        """Return what is decided at the default point: name -> values, the default first."""
        ...

    def base(self) -> Values:
        """Return the default point."""
        ...

    @property
    def pool(self) -> int:
        """Points that are drawn for each that is built, by what drawing one costs; the guess says which."""
        ...

    def draw(self, rng: random.Random, best: Sequence[Values]) -> Values | None:
        """Return a point to try: by lot, or near the best ones; None where there is none left."""
        ...

    def source(self, values: Values) -> str | None:
        """Return the closed source of a point; None where it is no program."""
        ...

    def estimate(self, values: Values) -> float | None:
        """Return a point's time by a model, in any unit; None where there is none, or no program."""
        ...


@dataclass(frozen=True)
class FirstCall:
    """How a point did when it was built and called once."""

    ratio: float | None = None
    """Its time over the default's, in one call each."""
    why: str | None = None
    """What is wrong with it; None: nothing."""


class Timer(Protocol):
    """Builds and times sources."""

    def load(
        self,
        sources: Mapping[int, str],
        limit_s: float,
        keep: Sequence[int],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Mapping[int, FirstCall]:
        """Build and call points once; leave those out for which there was no time.

        Of the points that are loaded only those to keep stay. ``meanwhile`` is called while points are built
        and none runs; a timer that builds nothing need not call it.
        """
        ...

    def time(self, points: Sequence[int], rounds: int, limit_s: float) -> dict[int, list[float]]:
        """Return milliseconds, turn by turn; fewer turns where there is no time for all."""
        ...


@dataclass
class Tried:
    """One point that was timed, or could not be."""

    values: Values
    source: str
    ratio: float | None = None
    """To the default point's time, below 1 is faster; None: it could not be timed."""
    interval: Interval | None = None
    """Of the ratio, 95 %; of the default point, 1. None: from one call alone."""
    times_ms: tuple[float, ...] = ()
    """Of a call, in turn with the default; empty: its first call was too slow to go on, or it failed."""
    why: str | None = None

    @property
    def is_faster(self) -> bool:
        """It is told apart from the default as faster."""
        return self.interval is not None and self.interval.high < 1.0


@dataclass
class TuningRun:
    """Every point that was tried, in order; the first is the default."""

    tried: list[Tried] = field(default_factory=list)
    seconds: float = 0.0
    is_exhausted: bool = False
    """Every point there is was tried."""
    illegal: list[Values] = field(default_factory=list)
    """Points that were drawn and are no program."""

    @property
    def ranked(self) -> list[Tried]:
        """The points that were timed in turn with the default, fastest first."""
        return sorted((t for t in self.tried if t.times_ms), key=lambda t: t.ratio or 0.0)

    @property
    def chosen(self) -> Tried:
        """The fastest of the points that are told apart from the default as faster; else the default."""
        return next((t for t in self.ranked if t.is_faster), self.tried[0])

    @property
    def n_failed(self) -> int:
        """Points that did not build, run, or agree roughly with the reference."""
        return sum(tried.why is not None for tried in self.tried)

    @property
    def failures(self) -> tuple[str, ...]:
        """Why they did not, each with how often, the commonest first."""
        reasons = Counter(
            tried.why.partition("\n")[0][:WORDS] for tried in self.tried if tried.why is not None
        )
        return tuple(f"{count} x {reason}" for reason, count in reasons.most_common())


def tune_points(
    points: PointSource,
    timer: Timer,
    *,
    seconds: float,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
    earlier: Sequence[EarlierTuning] = (),
    begun: float | None = None,
) -> TuningRun:
    """Try generations of points until the seconds are used or there are no more.

    ``earlier`` is what other runs, here or on other machines, measured of the same parameters: where points
    are promising from the first generation on.

    The clock starts once the default point runs. Where it has started at ``begun``, what it took to get there
    counts as well, but half of the seconds are for points. Nothing goes on after them: points of a generation
    for which there was no time are none that were tried.

    Raises:
        UserError: the default point does not build or run.
    """
    search = _Search(points, timer, random.Random(seed), clock, seconds, earlier)
    search.begin(begun)
    while search.left_s(FINAL_SHARE * seconds) > 0 and search.has_generation():
        pass
    search.compare_best()
    search.run.seconds = clock() - search.started
    return search.run


class _Search:
    """The state of one search: points by number, and the time."""

    def __init__(
        self,
        points: PointSource,
        timer: Timer,
        rng: random.Random,
        clock: Callable[[], float],
        seconds: float,
        earlier: Sequence[EarlierTuning] = (),
    ) -> None:
        self._earlier, self._shape = earlier, Shape()
        self._points, self._timer, self._rng, self._clock, self._seconds = points, timer, rng, clock, seconds
        self.run = TuningRun()
        self.started = clock()
        self._by_number: dict[int, Tried] = {}
        self._drawn: set[str] = set()
        self._estimates: dict[_Key, float | None] = {}
        self._seen: set[_Key] = set()
        self._defaults: Values = {}
        self._size = FIRST_GENERATION
        self._next = BASE + 1
        self._ahead: dict[int, Tried] | None = None
        """The next generation, drawn while the one before was built; None: there is none yet."""

    def left_s(self, kept: float = 0.0) -> float:
        """Return the seconds that are left, but for those that are kept."""
        return self._seconds - kept - (self._clock() - self.started)

    def begin(self, begun: float | None = None) -> None:
        """Build and call the default point; the clock starts then, if it has not before."""
        default = self._points.base()
        self._defaults = {name: values[0] for name, values in self._points.parameters().items()}
        self._seen.add(_key(default))
        source = self._points.source(default) or ""
        first = Tried(default, source, 1.0, Interval(1.0, 1.0))
        wrong = self._timer.load({BASE: source}, LOAD_S, []).get(BASE, FirstCall(why="it was too late")).why
        if wrong is not None:
            raise UserError(f"the kernel does not run with its defaults: {wrong}")
        self.run.tried.append(first)
        self._by_number[BASE] = first
        self._drawn.add(source)
        now = self._clock()
        self.started = now if begun is None else max(begun, now - self._seconds / 2)

    def has_generation(self) -> bool:
        """Draw and time one more generation; tell whether there was one."""
        began = self._clock()
        fresh = self._ahead or self._fresh()
        self._ahead = None
        if not fresh:
            self.run.is_exhausted = True
            return False
        reserved = FINAL_SHARE * self._seconds
        sources = {number: tried.source for number, tried in fresh.items()}
        keep = [BASE, *self._best_numbers()]
        calls = self._timer.load(sources, self.left_s(reserved), keep, self._draw_ahead)
        for number, call in calls.items():
            fresh[number].why, fresh[number].ratio = call.why, call.ratio
            self._by_number[number] = fresh[number]
            self.run.tried.append(fresh[number])
        able = [
            n
            for n, call in calls.items()
            if call.ratio is not None and call.ratio <= SLOW * self._best_ratio()
        ]
        self._halve(able, reserved)
        each = (self._clock() - began) / max(1, len(calls))
        affordable = int(GENERATION_SHARE * self._seconds / max(each, 1e-6))
        self._size = max(2, min(LARGEST_GENERATION, affordable))
        return True

    def _draw_ahead(self) -> None:
        """Draw the next generation by what is known before this one is timed: nothing waits for it then."""
        if self.left_s(FINAL_SHARE * self._seconds) > 0:
            self._ahead = self._fresh()

    def compare_best(self) -> None:
        """Time the best of all generations against each other: each was the luckiest of its own."""
        best = self._best_numbers()
        if len(best) > 1 and self.left_s() > 0:
            self._halve(best, 0.0, FINAL_ROUNDS)

    def _halve(self, numbers: Sequence[int], reserved: float, *first_rounds: int) -> None:
        rungs = halve(
            lambda ids, rounds: self._timer.time(ids, rounds, max(self.left_s(reserved), 0.0)),
            numbers,
            BASE,
            is_over=lambda: self.left_s(reserved) <= 0,
            bar=NEAR_BEST * self._best_ratio(),
            **({"first_rounds": first_rounds[0]} if first_rounds else {}),
        )
        for number, ratio in rungs.ratios.items():
            tried = self._by_number[number]
            tried.ratio, tried.times_ms = ratio, rungs.times[number]
            tried.interval = rungs.intervals[number] if len(tried.times_ms) > 1 else None
        self._by_number[BASE].times_ms = rungs.times.get(BASE, self._by_number[BASE].times_ms)

    def _fresh(self) -> dict[int, Tried]:
        """Return new points by number: those that are guessed to be fast, and some whatever is guessed."""
        fresh: dict[int, Tried] = {}
        for turn in range(ROUNDS_OF_DRAWING):
            is_first = turn == 0 and self._next == BASE + 1
            remembered = best_elsewhere(self._earlier, self._size) if is_first else []
            for values in (*remembered, *self._ordered(self._pool())):
                self._seen.add(_key(values))
                source = self._points.source(values)
                if source is None:
                    self.run.illegal.append(values)
                elif source not in self._drawn:
                    self._drawn.add(source)
                    fresh[self._next] = Tried(values, source)
                    self._next += 1
                if len(fresh) >= self._size:
                    return fresh
        return fresh

    def _pool(self) -> list[Values]:
        """Return different points that are not tried yet, many times as many as are built."""
        leaders = [tried.values for tried in self.run.ranked[:4]]
        wanted = self._points.pool * self._size
        found: dict[_Key, Values] = {}
        for _ in range(2 * wanted):
            values = self._points.draw(self._rng, leaders)
            if values is not None and _key(values) not in self._seen:
                found.setdefault(_key(values), values)
            if len(found) >= wanted:
                break
        return list(found.values())

    def _ordered(self, pool: Sequence[Values]) -> list[Values]:
        """Return points of the pool in the order in which to try them: some by lot, then as guessed."""
        default = self._estimate(self.run.tried[0].values)
        slowest = max(t.ratio for t in self.run.tried if t.ratio is not None)
        known = [
            (t.values, self._over(self._estimate(t.values), default), slowest if t.ratio is None else t.ratio)
            for t in self.run.tried
        ]
        guess = Guess(known, self._defaults, self._earlier, self._shape)
        models = [self._over(self._estimate(values), default) for values in pool]
        count = SPARE * self._size
        n_by_lot = sum(self._rng.random() < BY_LOT for _ in range(self._size))
        by_lot = self._rng.sample(range(len(pool)), min(n_by_lot, len(pool)))
        chosen = [number for number in guess.choose(pool, models, count) if number not in by_lot]
        return [pool[number] for number in (*by_lot, *chosen)]

    def _estimate(self, values: Values) -> float | None:
        key = _key(values)
        if key not in self._estimates:
            self._estimates[key] = self._points.estimate(values)
        return self._estimates[key]

    @staticmethod
    def _over(estimate: float | None, default: float | None) -> float | None:
        return estimate / default if estimate and default else None

    def _best_ratio(self) -> float:
        return min([1.0, *(t.ratio or 1.0 for t in self.run.tried if t.times_ms)])

    def _best_numbers(self) -> list[int]:
        """Return the fastest points of all generations, without the default."""
        timed = [n for n, t in self._by_number.items() if n != BASE and t.times_ms]
        return sorted(timed, key=lambda n: self._by_number[n].ratio or 0.0)[: FINALISTS + 2]


def _key(values: Values) -> _Key:
    return tuple(sorted(values.items()))


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
            values = tuple(_response(value, points) for value, points in by_value.items())
            found.append((max(ratios) / min(ratios), ParameterResponse(name=name, values=values)))
    return tuple(response for _, response in sorted(found, key=lambda pair: -pair[0]))


def _response(value: ParamValue, points: Sequence[Tried]) -> ValueResponse:
    best = points[0]
    low, high = best.interval or Interval(best.ratio or 1.0, best.ratio or 1.0)
    return ValueResponse(value=value, low=low, high=high, n_points=len(points))


def surface(run: TuningRun, count: int = 6) -> list[str]:
    """Return what was learned, in a few lines: by value, the time of the fastest point over the default's."""
    return [response.line for response in responses(run)[:count]]
