"""Sums over outcomes: all that a ledger needs to know of any number of tries.

Sums are whole numbers, so that they are exact, in any order, and what was added can be taken away again.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from kernelwright.core.run import Outcome

_BITS = 60
"""A log-speedup is counted in units of 2 to the minus 60."""
_DISTINCT = 512
"""Different log-speedups that a histogram keeps as they are."""
_STEP = 1 / 1024
"""To which it rounds them where there are more: to 0.05 %."""
_IN_STEPS = 2
"""Form of stored values. 0: as they are; 1: rounded ones, as stores of before have them."""


class TallyKey(NamedTuple):
    """What the outcomes of one tally have in common."""

    skill: str
    structure: str
    bottleneck: str
    coder: str
    expected: str


class EffectKey(NamedTuple):
    """What the outcomes of one histogram have in common."""

    skill: str
    coder: str
    expected: str


class Tally(NamedTuple):
    """Sums over outcomes. Those of log-speedups are in units of 2**-60, those of squares of 2**-120."""

    tries: int = 0
    verified: int = 0
    measured: int = 0
    """Verified, with a log-speedup."""
    wins: int = 0
    """Measured as faster than their base."""
    total: int = 0
    squares: int = 0
    gains: int = 0
    """The total of the wins."""

    @classmethod
    def of(cls, outcome: Outcome) -> "Tally":
        """Return the sums over one outcome."""
        effect = effect_of(outcome)
        if effect is None:
            return cls(tries=1, verified=int(outcome.verified))
        units = round(math.ldexp(effect, _BITS))
        is_win = effect > 0
        return cls(1, 1, 1, int(is_win), units, units * units, units if is_win else 0)

    def plus(self, other: "Tally") -> "Tally":
        """Return the sums over both."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Tally") -> "Tally":
        """Return the sums without the other's outcomes, which were added before."""
        return Tally(*(a - b for a, b in zip(self, other, strict=True)))

    def verified_only(self) -> "Tally":
        """Return the sums over the verified ones."""
        return self._replace(tries=self.verified)

    @property
    def mean(self) -> float:
        """Mean log-speedup of the measured ones; 0 where there are none."""
        return self.total / (self.measured << _BITS) if self.measured else 0.0

    @property
    def spread(self) -> float:
        """Sample standard deviation of the same; 0 below two."""
        n = self.measured
        if n < 2:
            return 0.0
        return math.sqrt((n * self.squares - self.total**2) / (n * (n - 1) << 2 * _BITS))

    @property
    def mean_gain(self) -> float:
        """Mean over all tries of the log-speedup where positive, 0 for the others."""
        return self.gains / (self.tries << _BITS) if self.tries else 0.0


class Histogram(NamedTuple):
    """How often each log-speedup was measured.

    The values are kept as they are up to 512 different ones; with more they are rounded to 0.05 %.
    """

    counts: Mapping[float, int]
    is_rounded: bool = False

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Histogram":
        """Return the histogram of the measured ones."""
        measured = (effect_of(outcome) for outcome in outcomes)
        return _rounded(cls(Counter(effect for effect in measured if effect is not None)))

    def plus(self, other: "Histogram") -> "Histogram":
        """Return the histogram of both, the same in whichever order."""
        one, two = (_round(h) if self.is_rounded or other.is_rounded else h for h in (self, other))
        return _rounded(Histogram(Counter(one.counts) + Counter(two.counts), one.is_rounded))

    @property
    def median(self) -> float | None:
        """The median log-speedup, None where nothing was measured."""
        values = sorted(self.counts)
        ends = [*accumulate(map(self.counts.__getitem__, values))]
        if not ends:
            return None
        low, high = (values[bisect_right(ends, place)] for place in ((ends[-1] - 1) // 2, ends[-1] // 2))
        return (low + high) / 2

    def plain(self) -> list[Any]:
        """Return it as lists that JSON can hold, rounded values as numbers of steps, which are short."""
        values = sorted(self.counts)
        counts = [self.counts[value] for value in values]
        if not self.is_rounded:
            return [0, values, counts]
        return [_IN_STEPS, [round(value / _STEP) for value in values], counts]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> "Histogram":
        """Read what ``plain`` returned."""
        form, values, counts = plain
        if form == _IN_STEPS:
            values = [value * _STEP for value in values]
        return cls(dict(zip(values, counts, strict=True)), bool(form))


def effect_of(outcome: Outcome) -> float | None:
    """Return the log-speedup of a verified outcome, None where there is none that can be counted."""
    effect = outcome.log_speedup
    return effect if outcome.verified and effect is not None and math.isfinite(effect) else None


def key_of(outcome: Outcome) -> TallyKey:
    """Return the key of the tally that the outcome counts in."""
    return TallyKey(outcome.skill, outcome.structure, outcome.bottleneck, outcome.coder, outcome.expected)


def tallies_of(outcomes: Iterable[Outcome]) -> dict[TallyKey, Tally]:
    """Return the sums over some outcomes."""
    found: dict[TallyKey, Tally] = {}
    for outcome in outcomes:
        key, one = key_of(outcome), Tally.of(outcome)
        found[key] = found[key].plus(one) if key in found else one
    return found


def histograms_of(outcomes: Iterable[Outcome]) -> dict[EffectKey, Histogram]:
    """Return the histograms of some outcomes."""
    groups: dict[EffectKey, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(EffectKey(outcome.skill, outcome.coder, outcome.expected), []).append(outcome)
    return {key: Histogram.of(group) for key, group in groups.items()}


def _rounded(histogram: Histogram) -> Histogram:
    return _round(histogram) if len(histogram.counts) > _DISTINCT else histogram


def _round(histogram: Histogram) -> Histogram:
    if histogram.is_rounded:
        return histogram
    counts: Counter[float] = Counter()
    for value, n in histogram.counts.items():
        counts[round(value / _STEP) * _STEP] += n
    return Histogram(counts, True)
