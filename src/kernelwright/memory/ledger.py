"""Long-term, learned: what every skill was measured to do, over all runs that the store remembers."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median, stdev

from kernelwright.core.frozen import Frozen
from kernelwright.core.run import Outcome
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
    """Outcomes, aggregated by skill and context. Immutable: more outcomes make another one (``plus``).

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
        self._outcomes: tuple[Outcome, ...] = tuple(outcomes)
        self._coder, self._base = coder, base
        self._groups: dict[_Context, list[Outcome]] = defaultdict(list)
        self._stats: dict[_Context, SkillStats | None] = {}
        for outcome in self._outcomes:
            is_own = coder in (None, outcome.coder)
            for context in _contexts(outcome.skill, outcome.structure, outcome.bottleneck):
                if is_own or (context[-1] and outcome.verified):
                    self._groups[context].append(outcome)

    def plus(self, outcomes: Iterable[Outcome]) -> "Ledger":
        """Return a ledger with more outcomes; only what they are about is counted anew."""
        return Ledger(outcomes, self._coder, self)

    def __len__(self) -> int:
        return len(self._outcomes) + (len(self._base) if self._base is not None else 0)

    def stats(self, skill: str, structure: str, bottleneck: str) -> SkillStats:
        """Return what was measured in the closest context with ENOUGH_TRIES tries.

        Contexts from close to wide: skill on structure with bottleneck, skill with bottleneck, skill, all
        three from the coder's own outcomes; then the same with others'. Where none has enough, the widest.
        The coder comes before the context: who writes decides whether a move works at all, the context only
        how much it gives.
        """
        known = [self._known(context) for context in _contexts(skill, structure, bottleneck)]
        enough = (stats for stats in known if stats is not None and stats.tries >= ENOUGH_TRIES)
        return next(enough, known[-1] or SkillStats())

    def factor(self, skill: str, structure: str, bottleneck: str) -> float:
        """Return 1: a ledger measures and generalises no further; see :class:`InformedLedger`."""
        return 1.0

    def effects(self) -> tuple[Effect, ...]:
        """Return expected against measured effect per skill, coder and expectation, in order of name."""
        groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
        for outcome in self._all():
            groups[outcome.skill, outcome.coder, outcome.expected].append(outcome)
        return tuple(_effect(*key, group) for key, group in sorted(groups.items()))

    def _known(self, context: _Context) -> SkillStats | None:
        """Return what was measured in exactly this context, counted when it is first asked for."""
        if context not in self._stats:
            if self._base is not None and context not in self._groups:
                self._stats[context] = self._base._known(context)
            else:
                group = self._group(context)
                self._stats[context] = _aggregate(context, group, self._coder) if group else None
        return self._stats[context]

    def _group(self, context: _Context) -> list[Outcome]:
        before = self._base._group(context) if self._base is not None else []
        return [*before, *self._groups.get(context, ())]

    def _all(self) -> tuple[Outcome, ...]:
        return (*(self._base._all() if self._base is not None else ()), *self._outcomes)


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


def _aggregate(context: _Context, outcomes: Sequence[Outcome], coder: str | None) -> SkillStats:
    _, structure, bottleneck, _ = context
    has_others = any(coder not in (None, outcome.coder) for outcome in outcomes)
    effects = _log_speedups(outcomes)
    gains = [effect for effect in effects if effect > 0]
    return SkillStats(
        tries=len(outcomes),
        wins=len(gains),
        mean_log_speedup=fmean(effects) if effects else 0.0,
        spread=stdev(effects) if len(effects) > 1 else 0.0,
        mean_gain=math.fsum(gains) / len(outcomes),
        context=f"{structure}/{bottleneck}{WHOEVER if has_others else ''}",
    )


def _effect(skill: str, coder: str, expected: str, outcomes: Sequence[Outcome]) -> Effect:
    effects = _log_speedups(outcomes)
    return Effect(
        skill=skill,
        coder=coder,
        expected=expected,
        tries=len(outcomes),
        verified=len(effects),
        wins=sum(effect > 0 for effect in effects),
        median_speedup=math.exp(median(effects)) if effects else None,
    )


def _log_speedups(outcomes: Sequence[Outcome]) -> list[float]:
    return [o.log_speedup for o in outcomes if o.verified and o.log_speedup is not None]
