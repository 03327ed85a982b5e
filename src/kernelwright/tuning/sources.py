"""Where points come from: the parameters that a source leaves open, and the space of a task's programs."""

import math
import random
from collections.abc import Callable, Mapping, Sequence

from kernelwright.core.errors import LoweringError
from kernelwright.core.open_parameters import closed, open_parameters
from kernelwright.core.plan import ParamValue, Plan
from kernelwright.ir.space import PlannedPoint, Point, Points, Space
from kernelwright.tuning.search import Values

MOST = 10**12
"""No space is said to be larger."""
NEAR = 0.6
"""Share of the points that are drawn near the best so far, once there are any."""
POOL_OF_VALUES, POOL_OF_PROGRAMS = 64, 3
"""Points that are drawn for each that is built: values cost nothing, a program must be lowered."""
DRAWS = 30
"""Draws until one is legal; then there is none."""


class OpenSource:
    """Points of a source's open parameters; the default is the first value of each."""

    def __init__(self, source: str, is_legal: Callable[[Values], bool] = lambda values: True) -> None:
        """Take a source; points that are not legal are never drawn."""
        self._source, self._is_legal = source, is_legal
        self._open = open_parameters(source)
        self.size = math.prod(len(values) for values in self._open.values())
        """Number of points."""
        self.pool = POOL_OF_VALUES

    def parameters(self) -> Mapping[str, tuple[ParamValue, ...]]:
        """See PointSource."""
        return self._open

    def base(self) -> Values:
        """See PointSource."""
        return {name: values[0] for name, values in self._open.items()}

    def draw(self, rng: random.Random, best: Sequence[Values]) -> Values | None:
        """See PointSource: one or two names of a good point drawn anew, or all of them."""
        drawn = (self._draw(rng, best) for _ in range(DRAWS))
        return next((values for values in drawn if self._is_legal(values)), None)

    def source(self, values: Values) -> str | None:
        """See PointSource."""
        return closed(self._source, values) if self._is_legal(values) else None

    def estimate(self, values: Values) -> float | None:
        """See PointSource: nothing is known of what a source makes of its parameters."""
        return None

    def _draw(self, rng: random.Random, best: Sequence[Values]) -> Values:
        if best and rng.random() < NEAR:
            names = rng.sample(sorted(self._open), min(len(self._open), rng.choice((1, 1, 2))))
            return {**rng.choice(best), **{name: rng.choice(self._open[name]) for name in names}}
        return {name: rng.choice(values) for name, values in self._open.items()}


class SpaceSource:
    """Points of a space of programs."""

    def __init__(
        self, space: Space, write: Callable[[PlannedPoint], str], points: Points | None = None
    ) -> None:
        """Take all points of the space, or some of them."""
        self._space, self._write = space, write
        self._points: Points = space if points is None else points
        self._plans: dict[Point, PlannedPoint] = {}
        self.pool = POOL_OF_PROGRAMS

    @property
    def size(self) -> int:
        """Number of points, counted at the default one; at most ``MOST``."""
        return min(MOST, math.prod(len(d.legal) for d in self._points.decisions()))

    def parameters(self) -> Mapping[str, tuple[ParamValue, ...]]:
        """See PointSource."""
        return {
            decision.name: (decision.default, *(v for v in decision.legal if v != decision.default))
            for decision in self._points.decisions()
        }

    def base(self) -> Values:
        """See PointSource."""
        return {}

    def draw(self, rng: random.Random, best: Sequence[Values]) -> Values | None:
        """See PointSource: a good point with one decision drawn anew, a mixture of two, or a lot.

        The default point is a good one: a target's rules have decided it.
        """
        if rng.random() < NEAR:
            first, second = (rng.choice(best), rng.choice(best)) if best else (self.base(), self.base())
            mixed: Mapping[str, ParamValue] = {**first, **second} if rng.random() < 0.4 else first
            decisions = self._planned(mixed).decisions
            if not decisions:
                return None
            decision = rng.choice(decisions)
            value = rng.choice(decision.legal)
            kept = {name: v for name, v in mixed.items() if name != decision.name}
            return kept if value == decision.default else {**kept, decision.name: value}
        drawn = next(self._points.sample(1, rng.randrange(1 << 30), changes=3.0), None)
        if drawn is None:
            return None
        self._plans[drawn.point] = drawn
        return dict(drawn.point.values)

    def source(self, values: Values) -> str | None:
        """See PointSource."""
        planned = self._planned(values)
        if planned.lowered is None:
            return None
        try:
            return self._write(planned)
        except LoweringError:
            return None

    def estimate(self, values: Values) -> float | None:
        """See PointSource: by the target's model."""
        lowering, planned = self._space.lowering, self._planned(values)
        if lowering.estimate_ns is None or planned.lowered is None:
            return None
        return lowering.estimate_ns(planned.lowered.program, self._space.machine)

    def plan(self, values: Values) -> Plan:
        """Return the plan of a point."""
        return self._planned(values).plan

    def _planned(self, values: Values) -> PlannedPoint:
        point = Point.of(values)
        if point not in self._plans:
            self._plans[point] = self._points.plan(point)
        return self._plans[point]
