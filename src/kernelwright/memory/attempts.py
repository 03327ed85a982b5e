"""One idea on one base: how it was carried out, repaired, and what it came to."""

import math

from kernelwright.core.evaluation import Speedup, Status
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import Move


class Link(Frozen):
    """One candidate of an idea: the first try, or a repair of the one before."""

    candidate: str
    status: Status
    detail: str = ""
    speedup_eager: float | None = None
    """Geometric mean over the workloads; None when not verified."""
    interval_eager: tuple[float, float] | None = None
    """Of that mean; None: not known."""
    over_base: Speedup | None = None
    """Over the base, where the two were timed in turn; the ``baseline`` is the base's id."""


class Idea(Frozen):
    """A move on a base, with its repair chain. It is credited with what the chain ends in."""

    base: str
    """Candidate id."""
    move: Move
    links: tuple[Link, ...] = ()
    """First try and repairs, in order; empty when the move could not be carried out."""
    failure: str | None = None
    """Why the move could not be carried out, or why its repair was given up."""
    base_speedup_eager: float | None = None
    base_interval_eager: tuple[float, float] | None = None

    @property
    def last(self) -> Link | None:
        """The candidate the idea stands at."""
        return self.links[-1] if self.links else None

    @property
    def repairs(self) -> int:
        """How many repairs were evaluated."""
        return max(len(self.links) - 1, 0)

    @property
    def is_verified(self) -> bool:
        """True when the chain ends in a verified candidate."""
        return self.last is not None and self.last.status is Status.VERIFIED

    @property
    def direct(self) -> Speedup | None:
        """How the candidate did when it was timed in turn with the base; None where it was not."""
        known = self.last.over_base if self.last else None
        return known if known is not None and known.baseline == self.base else None

    @property
    def speedup(self) -> float | None:
        """Base over new latency: timed in turn, else from both ones' speedups over eager; None: unknown."""
        last = self.last
        if self.direct is not None:
            return self.direct.ratio
        if last is None or last.speedup_eager is None or not self.base_speedup_eager:
            return None
        return last.speedup_eager / self.base_speedup_eager

    @property
    def interval(self) -> tuple[float, float] | None:
        """Interval of ``speedup``; None where one of the two is not known.

        Where both were measured against eager and apart from each other, logarithmic widths add in squares.
        """
        if self.direct is not None:
            return self.direct.low, self.direct.high
        own, base = self.last.interval_eager if self.last else None, self.base_interval_eager
        if self.speedup is None or own is None or base is None or min(*own, *base) <= 0:
            return None
        half = math.hypot(*(math.log(high / low) / 2 for low, high in (own, base)))
        return self.speedup * math.exp(-half), self.speedup * math.exp(half)

    @property
    def _effect(self) -> str:
        if self.direct is not None:
            return f", {self.direct.against('its base')}"
        if self.speedup is None:
            return ""
        told = f", {self.speedup:.2f}x over its base"
        if self.interval is None:
            return told
        low, high = self.interval
        alike = ", not distinguishable" if low <= 1 <= high else ""
        return f"{told} [{low:.2f}, {high:.2f}]{alike}"

    @property
    def ended(self) -> str:
        """How it ended, in a few words."""
        if self.last is None:
            return f"not carried out: {self.failure or 'no reason given'}"
        repairs = f" after {self.repairs} repair{'s' if self.repairs > 1 else ''}" if self.repairs else ""
        if self.is_verified:
            return f"verified{repairs}{self._effect}"
        given_up = f"; given up: {self.failure}" if self.failure else ""
        detail = f" ({self.last.detail})" if self.last.detail else ""
        return f"{self.last.status}{repairs}{detail}{given_up}"

    def describe(self) -> str:
        """Return one line for a person: the move and how it ended."""
        return f"{self.move.key}: {self.ended}"
