"""Long-term, learned: what every skill was measured to do, over all runs that the store remembers."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from kernelwright.core.frozen import Frozen
from kernelwright.core.run import Outcome
from kernelwright.core.tally import EffectKey, Histogram, Tally, TallyKey, histograms_of, tallies_of
from kernelwright.memory.findings import SkillFactors
from kernelwright.skills.stats import LedgerView, SkillStats

ENOUGH_TRIES = 3
"""Tries from which a context speaks for itself; below, the ledger backs off to a wider one. Ours."""
ANY = "any"
"""Stands for every structure or every bottleneck."""

WHOEVER = ", whoever wrote it"
"""Marks a context that other Coders' outcomes count in."""

_Context = tuple[str, str, str, bool]
"""Skill, structure, bottleneck; and whether other Coders' outcomes count too."""


class Effect(Frozen):
    """One line of the table of expected against measured effects."""

    skill: str
    coder: str
    """Whose Coder carried the moves out, ``expert`` or ``llm``."""
    expected: str
    """The effect its moves announced, in words; empty where none was given."""
    tries: int
    verified: int
    wins: int
    median_speedup: float | None
    """Of the verified tries, base over new latency; None when none was verified."""


class Ledger:
    """Outcomes, added up by skill and context. Immutable: more outcomes make another one (``plus``).

    Args:
        outcomes: Of all runs.
        coder: Who is going to carry moves out. That one's own outcomes speak first; where there are too few,
            others' verified ones count as well. A failure of another's is left out: it tells of that one's
            code as likely as of the idea. None: everybody's count alike.
        base: A ledger for the same coder, whose outcomes come before these.
    """

    def __init__(
        self, outcomes: Iterable[Outcome] = (), coder: str | None = None, base: "Ledger | None" = None
    ) -> None:
        known = tuple(outcomes)
        self._coder, self._base = coder, base
        self._tallies: Mapping[TallyKey, Tally] = tallies_of(known)
        self._histograms: Callable[[], Mapping[EffectKey, Histogram]] = lambda: histograms_of(known)
        self._index()

    @classmethod
    def of_tallies(
        cls,
        tallies: Mapping[TallyKey, Tally],
        coder: str | None = None,
        histograms: Mapping[EffectKey, Histogram] | None = None,
    ) -> "Ledger":
        """Return the ledger of outcomes that were added up before, such as a store's."""
        ledger = cls((), coder)
        ledger._tallies = tallies
        ledger._histograms = lambda: histograms or {}
        ledger._index()
        return ledger

    def _index(self) -> None:
        self._sums: dict[_Context, tuple[Tally, bool]] = {}
        self._by_skill: dict[str, list[tuple[TallyKey, Tally]]] = defaultdict(list)
        for key, tally in self._tallies.items():
            self._by_skill[key.skill].append((key, tally))

    def plus(self, outcomes: Iterable[Outcome]) -> "Ledger":
        """Return a ledger with more outcomes; only these are counted."""
        return Ledger(outcomes, self._coder, self)

    def __len__(self) -> int:
        own = sum(tally.tries for tally in self._tallies.values())
        return own + (len(self._base) if self._base is not None else 0)

    def stats(self, skill: str, structure: str, bottleneck: str) -> SkillStats:
        """Return what was measured in the closest context with ENOUGH_TRIES tries.

        Contexts from close to wide: skill on structure with bottleneck, skill with bottleneck, skill, all
        three from the coder's own outcomes; then the same with others'. Where none has enough, the widest.
        The coder comes before the context: who writes decides whether a move works at all, the context only
        how much it gives.
        """
        for context in _contexts(skill, structure, bottleneck):
            tally, has_others = self._sum(context)
            if tally.tries >= ENOUGH_TRIES:
                break
        return _stats(context, tally, has_others) if tally.tries else SkillStats()

    def factor(self, skill: str, structure: str, bottleneck: str) -> float:
        """Return 1: a ledger measures and generalises no further; see :class:`InformedLedger`."""
        return 1.0

    def effects(self) -> tuple[Effect, ...]:
        """Return expected against measured effect per skill, coder and expectation, in order of name."""
        tallies: dict[EffectKey, Tally] = defaultdict(Tally)
        histograms: dict[EffectKey, Histogram] = {}
        for ledger in self._parts():
            for key, tally in ledger._tallies.items():
                group = EffectKey(key.skill, key.coder, key.expected)
                tallies[group] = tallies[group].plus(tally)
            for group, histogram in ledger._histograms().items():
                known = histograms.get(group)
                histograms[group] = histogram if known is None else known.plus(histogram)
        return tuple(_effect(key, tally, histograms.get(key)) for key, tally in sorted(tallies.items()))

    def _sum(self, context: _Context) -> tuple[Tally, bool]:
        """Return what was measured in exactly this context, added up when it is first asked for.

        The second value tells whether it is others' too.
        """
        if context not in self._sums:
            before = self._base._sum(context) if self._base is not None else (Tally(), False)
            self._sums[context] = self._add(context, *before)
        return self._sums[context]

    def _add(self, context: _Context, tally: Tally, has_others: bool) -> tuple[Tally, bool]:
        skill, structure, bottleneck, may_have_others = context
        for key, one in self._by_skill.get(skill, ()):
            if structure in (ANY, key.structure) and bottleneck in (ANY, key.bottleneck):
                if self._coder in (None, key.coder):
                    tally = tally.plus(one)
                elif may_have_others and one.verified:
                    tally, has_others = tally.plus(one.verified_only()), True
        return tally, has_others

    def _parts(self) -> "tuple[Ledger, ...]":
        return (*(self._base._parts() if self._base is not None else ()), self)


class InformedLedger:
    """A ledger together with what admitted findings say of its skills."""

    def __init__(self, ledger: LedgerView, factors: SkillFactors) -> None:
        self._ledger, self._factors = ledger, factors

    def stats(self, skill: str, structure: str, bottleneck: str) -> SkillStats:
        """Return what the ledger measured."""
        return self._ledger.stats(skill, structure, bottleneck)

    def factor(self, skill: str, structure: str, bottleneck: str) -> float:
        """Return what the findings multiply the skill's score by."""
        return self._factors.factor(skill, structure, bottleneck)


def _contexts(skill: str, structure: str, bottleneck: str) -> tuple[_Context, ...]:
    widths = ((structure, bottleneck), (ANY, bottleneck), (ANY, ANY))
    return tuple((skill, *width, has_others) for has_others in (False, True) for width in widths)


def _stats(context: _Context, tally: Tally, has_others: bool) -> SkillStats:
    _, structure, bottleneck, _ = context
    return SkillStats(
        tries=tally.tries,
        wins=tally.wins,
        mean_log_speedup=tally.mean,
        spread=tally.spread,
        mean_gain=tally.mean_gain,
        context=f"{structure}/{bottleneck}{WHOEVER if has_others else ''}",
    )


def _effect(key: EffectKey, tally: Tally, histogram: Histogram | None) -> Effect:
    middle = None if histogram is None else histogram.median
    return Effect(
        skill=key.skill,
        coder=key.coder,
        expected=key.expected,
        tries=tally.tries,
        verified=tally.measured,
        wins=tally.wins,
        median_speedup=None if middle is None else math.exp(middle),
    )
