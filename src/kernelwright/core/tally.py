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
_BINS = 512
"""Of a histogram at most, so that a store of any size reads all of them at once."""
_FINEST = 10
"""The narrowest bins are 2 to the minus 10 wide: 0.1 %."""
_AS_THEY_ARE, _ROUNDED, _STEPS, _LEVEL = 0, 1, 2, 3
"""Forms of stored values. Stores of before have `_ROUNDED` to 2**-10, and `_STEPS` of 2**-10."""


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
    """How often each log-speedup was measured, in at most 512 bins.

    The values are kept as they are up to 512 different ones; with more, the middle of a bin stands for all in
    it. Bins are the narrowest of those 0.1 %, 0.2 %, 0.4 %, ... wide that are few enough.
    """

    counts: Mapping[float, int]
    level: int | None = None
    """Bins are 2**-level wide, from 0 up and down; None: values as they are."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Histogram":
        """Return the histogram of the measured ones."""
        measured = (effect_of(outcome) for outcome in outcomes)
        return cls(Counter(effect for effect in measured if effect is not None))._in_few_bins()

    def plus(self, other: "Histogram") -> "Histogram":
        """Return the histogram of both, the same in whichever order."""
        levels = [h.level for h in (self, other) if h.level is not None]
        one, two = (h._at(min(levels)) if levels else h for h in (self, other))
        return Histogram(Counter(one.counts) + Counter(two.counts), one.level)._in_few_bins()

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
        """Return it as lists that JSON can hold; bins are whole numbers, which are short."""
        values = sorted(self.counts)
        counts = [self.counts[value] for value in values]
        if self.level is None:
            return [_AS_THEY_ARE, values, counts]
        return [_LEVEL, [_bin(value, self.level) for value in values], counts, self.level]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> "Histogram":
        """Read what ``plain`` returned, now or in an earlier version."""
        form, values, counts, *more = plain
        if form == _AS_THEY_ARE:
            return cls(dict(zip(values, counts, strict=True)))
        level = more[0] if form == _LEVEL else _FINEST
        bins = [_bin(value, level) for value in values] if form == _ROUNDED else values
        middles = (_middle(number, level) for number in bins)
        return cls(dict(zip(middles, counts, strict=True)), level)._in_few_bins()

    def _in_few_bins(self) -> "Histogram":
        """Return it at the finest level with few enough bins.

        Bins of a level lie in those of the next, and more values never make fewer bins: so the level depends
        on all values together and not on their order.
        """
        histogram = self
        while len(histogram.counts) > _BINS:
            histogram = self._at(_FINEST if histogram.level is None else histogram.level - 1)
        return histogram

    def _at(self, level: int) -> "Histogram":
        """Return it with bins of this level, which is its own or coarser."""
        if level == self.level:
            return self
        counts: Counter[float] = Counter()
        for value, n in self.counts.items():
            counts[_middle(_bin(value, level), level)] += n
        return Histogram(counts, level)


def _bin(value: float, level: int) -> int:
    return math.floor(math.ldexp(value, level))


def _middle(number: int, level: int) -> float:
    return math.ldexp(number + 0.5, -level)


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
