"""Diagnosis to ranked skills: every skill that applies, by its match times what was measured of it."""

import math
from collections.abc import Mapping
from typing import TypeAlias

from kernelwright.core.evidence import Bottleneck, Diagnosis, Evidence, Headroom
from kernelwright.core.skill import ANY_KERNEL, RankedSkill, Skill
from kernelwright.skills.diagnosis import recoverable
from kernelwright.skills.predicate import holds, number, show_predicate
from kernelwright.skills.stats import LedgerView, SkillStats

PRIOR_TRIES = 4.0
"""How many measured tries the expectation is worth: after as many, both weigh the same. Ours."""
DEFAULT_FACTOR = 1.05
"""Announced speedup of a skill that names none."""
LEAST_EXPECTED = 1.01
"""Of a skill with a place of which model and diagnosis expect nothing: both err. Ours."""
MOST_RECOVERED = 0.9
"""Share of the latency that one move is expected to recover at most; ours."""
WORTH_AT_LOW_HEADROOM = 1.02
"""Modelled speedup from which a skill that answers no diagnosed bottleneck is tried near the floor; ours."""
OF_PROGRAMS = ("graph.", "program.")
"""How facts begin that an edit's own search for places is the better judge of."""
ALSO_MATCH = 0.7
"""Match of a skill that answers the first of the further bottlenecks."""
ALSO_DECAY = 0.85
"""What each further bottleneck counts of the one before it."""
NO_MATCH = 0.2
"""Match of a skill that answers none of the diagnosed bottlenecks: kept, because diagnoses err, but last."""


Gains: TypeAlias = Mapping[str, float | None]
"""What the space says of skills: those that can act on the base, each with the speedup that the cost model
gives its best place: 1 where it does not look at what is changed, None for guidance in words."""


def rank(
    skills: Mapping[str, Skill],
    evidence: Evidence,
    diagnosis: Diagnosis,
    target: str,
    ledger: LedgerView,
    gains: Gains | None = None,
) -> tuple[RankedSkill, ...]:
    """Return all skills that apply, best first; ties in order of name. Empty only at the floor.

    ``gains`` is the space's answer; None: there is no program to ask, and a skill applies by its conditions
    alone. The score is ``match * signals * gain``: how well the skill answers the bottleneck (0.2 to 1), how
    many of its weighted signals hold (0.5 to 1.5), and the expected log-speedup of one try, what the task
    allows shrunk towards what the ledger measured; admitted findings multiply it.
    """
    if diagnosis.bottleneck is Bottleneck.AT_FLOOR:
        return ()
    shares = recoverable(evidence)
    ranked = [
        _ranked(skill, evidence, diagnosis, ledger, expected_factor(skill, evidence, shares, gains))
        for skill in skills.values()
        if applies(skill, evidence, diagnosis, target, gains)
    ]
    return tuple(sorted(ranked, key=lambda entry: (-entry.score, entry.skill)))


def applies(
    skill: Skill, evidence: Evidence, diagnosis: Diagnosis, target: str, gains: Gains | None = None
) -> bool:
    """Tell whether a skill may be recommended.

    No veto holds; the space has a place for it; and its conditions hold. Where an edit has found its place,
    conditions on graph and program are met by that. Guidance on any kernel needs a sign that holds. With
    little headroom left, only what answers a diagnosed bottleneck is worth a try, or what the cost model
    expects a gain of.
    """
    if target not in skill.targets or any(holds(predicate, evidence) for predicate in skill.forbids):
        return False
    if gains is not None and skill.name not in gains:
        return False
    gain = None if gains is None else gains[skill.name]
    is_vague = gains is not None and gain is None and skill.acts_on == ANY_KERNEL
    if is_vague and not any(holds(signal.when, evidence) for signal in skill.signals):
        return False
    if diagnosis.headroom is Headroom.LOW and _match(skill, diagnosis)[0] == NO_MATCH:
        return gain is not None and gain >= WORTH_AT_LOW_HEADROOM
    wanted = [p for p in skill.requires if gain is None or not p.metric.startswith(OF_PROGRAMS)]
    fits = gain is not None or not skill.structures or diagnosis.structure in skill.structures
    return fits and all(holds(predicate, evidence) for predicate in wanted)


def expected_gain(expected: float, stats: SkillStats) -> float:
    """Return the posterior mean log-speedup of one try, in the conjugate normal model with known variance.

    The expectation counts as PRIOR_TRIES measured tries.
    """
    return (PRIOR_TRIES * math.log(expected) + stats.tries * stats.mean_gain) / (PRIOR_TRIES + stats.tries)


def expected_factor(
    skill: Skill, evidence: Evidence, shares: Mapping[Bottleneck, float], gains: Gains | None
) -> float:
    """Return the speedup to expect of a skill on this task, a ratio above 1.

    By the cost model where it looks at what the edit changes. Else the author's announcement, at most what
    the bottlenecks that it answers leave to recover. Nothing but algebra gets below the roofline floor.
    """
    modelled = None if gains is None else gains.get(skill.name)
    if modelled is None or modelled == 1.0:
        share = max((shares.get(bottleneck, 0.0) for bottleneck in skill.bottlenecks), default=0.0)
        modelled = min(announced_factor(skill), 1 / (1 - min(share, MOST_RECOVERED)))
    floor_fraction = number(evidence, "run.floor_fraction")
    if floor_fraction is not None and not (skill.lowering or "").startswith("rewrite:"):
        modelled = min(modelled, 1 / min(max(floor_fraction, 1e-3), 1.0))
    return max(modelled, LEAST_EXPECTED)


def announced_factor(skill: Skill) -> float:
    """Return the speedup that the skill's author announces, a ratio above 1."""
    factors = [e.factor for e in skill.expects if e.metric == "run.latency_ms" and e.direction == "down"]
    return max(factors, default=DEFAULT_FACTOR)


def _ranked(
    skill: Skill, evidence: Evidence, diagnosis: Diagnosis, ledger: LedgerView, expected: float
) -> RankedSkill:
    match, match_reason = _match(skill, diagnosis)
    signals, signal_reasons = _signals(skill, evidence)
    stats = ledger.stats(skill.name, diagnosis.structure, diagnosis.bottleneck)
    gain = expected_gain(expected, stats)
    factor = ledger.factor(skill.name, diagnosis.structure, diagnosis.bottleneck)
    facts = [f"requires {show_predicate(p)}: {evidence.get(p.metric)}" for p in skill.requires]
    found = [] if factor == 1.0 else [f"admitted findings count it {factor:.2f} times"]
    reasons = (match_reason, *facts, *signal_reasons, _gain_reason(expected, stats, gain), *found)
    return RankedSkill(
        skill=skill.name, score=match * signals * gain * factor, reasons=reasons, expected=expected
    )


def _match(skill: Skill, diagnosis: Diagnosis) -> tuple[float, str]:
    if diagnosis.bottleneck in skill.bottlenecks:
        return 1.0, f"answers the bottleneck {diagnosis.bottleneck}"
    for position, bottleneck in enumerate(diagnosis.also):
        if bottleneck in skill.bottlenecks:
            return ALSO_MATCH * ALSO_DECAY**position, f"answers {bottleneck}, which also limits"
    return NO_MATCH, f"answers {', '.join(skill.bottlenecks)}, not diagnosed here"


def _signals(skill: Skill, evidence: Evidence) -> tuple[float, list[str]]:
    """Return 0.5 plus the weighted share of signals that hold; an unknown one counts half."""
    total = sum(signal.weight for signal in skill.signals)
    if total <= 0:
        return 1.0, []
    held, reasons = 0.0, []
    for signal in skill.signals:
        if holds(signal.when, evidence):
            held += signal.weight
            shown = show_predicate(signal.when)
            value = "" if signal.when.op == "==" else f" ({_show(evidence.get(signal.when.metric))})"
            reasons.append(f"{shown} holds{value}")
        elif evidence.get(signal.when.metric) is None:
            held += signal.weight / 2
    return 0.5 + held / total, reasons


def _show(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _gain_reason(expected: float, stats: SkillStats, gain: float) -> str:
    text = f"{expected:.2f}x expected here"
    if stats.tries == 0:
        return f"{text}; never measured"
    measured = math.exp(stats.mean_gain)
    return (
        f"{text}; measured {measured:.2f}x a try, {stats.wins} wins in {stats.tries} tries on "
        f"{stats.context}; taken as {math.exp(gain):.2f}x"
    )
