"""Diagnosis to ranked skills: every skill that applies, by its match times what was measured of it."""

import math
from collections.abc import Mapping

from kernelwright.core.evidence import Bottleneck, Diagnosis, Evidence
from kernelwright.core.skill import RankedSkill, Skill
from kernelwright.skills.predicate import holds, show_predicate
from kernelwright.skills.stats import LedgerView, SkillStats

PRIOR_TRIES = 4.0
"""How many measured tries the author's expectation is worth: after as many, both weigh the same. Ours."""
DEFAULT_FACTOR = 1.05
"""Expected speedup of a skill that names none."""
ALSO_MATCH = 0.7
"""Match of a skill that answers the first of the further bottlenecks."""
ALSO_DECAY = 0.85
"""What each further bottleneck counts of the one before it."""
NO_MATCH = 0.2
"""Match of a skill that answers none of the diagnosed bottlenecks: kept, because diagnoses err, but last."""


def rank(
    skills: Mapping[str, Skill],
    evidence: Evidence,
    diagnosis: Diagnosis,
    target: str,
    ledger: LedgerView,
) -> tuple[RankedSkill, ...]:
    """Return all skills that apply, best first; ties in order of name. Empty only at the floor.

    A skill applies when it names the target, fits the structure, all of ``requires`` hold and none of
    ``forbids``. Its score is ``match * signals * gain``: how well it answers the bottleneck (0.2 to 1), how
    many of its weighted signals hold (0.5 to 1.5), and the expected log-speedup of one try, the author's
    expectation shrunk towards what the ledger measured; admitted findings multiply it.
    """
    if diagnosis.bottleneck is Bottleneck.AT_FLOOR:
        return ()
    ranked = [
        _ranked(skill, evidence, diagnosis, ledger)
        for skill in skills.values()
        if applies(skill, evidence, diagnosis, target)
    ]
    return tuple(sorted(ranked, key=lambda entry: (-entry.score, entry.skill)))


def applies(skill: Skill, evidence: Evidence, diagnosis: Diagnosis, target: str) -> bool:
    """Tell whether the skill's hard conditions hold."""
    return (
        target in skill.targets
        and (not skill.structures or diagnosis.structure in skill.structures)
        and all(holds(predicate, evidence) for predicate in skill.requires)
        and not any(holds(predicate, evidence) for predicate in skill.forbids)
    )


def expected_gain(skill: Skill, stats: SkillStats) -> float:
    """Return the posterior mean log-speedup of one try, in the conjugate normal model with known variance.

    The author's expectation counts as PRIOR_TRIES measured tries.
    """
    prior = math.log(expected_factor(skill))
    return (PRIOR_TRIES * prior + stats.tries * stats.mean_gain) / (PRIOR_TRIES + stats.tries)


def expected_factor(skill: Skill) -> float:
    """Return the speedup the skill's author expects, a ratio above 1."""
    factors = [e.factor for e in skill.expects if e.metric == "run.latency_ms" and e.direction == "down"]
    return max(factors, default=DEFAULT_FACTOR)


def _ranked(skill: Skill, evidence: Evidence, diagnosis: Diagnosis, ledger: LedgerView) -> RankedSkill:
    match, match_reason = _match(skill, diagnosis)
    signals, signal_reasons = _signals(skill, evidence)
    stats = ledger.stats(skill.name, diagnosis.structure, diagnosis.bottleneck)
    gain = expected_gain(skill, stats)
    factor = ledger.factor(skill.name, diagnosis.structure, diagnosis.bottleneck)
    facts = [f"requires {show_predicate(p)}: {evidence.get(p.metric)}" for p in skill.requires]
    found = [] if factor == 1.0 else [f"admitted findings count it {factor:.2f} times"]
    reasons = (match_reason, *facts, *signal_reasons, _gain_reason(skill, stats, gain), *found)
    return RankedSkill(skill=skill.name, score=match * signals * gain * factor, reasons=reasons)


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


def _gain_reason(skill: Skill, stats: SkillStats, gain: float) -> str:
    text = f"{expected_factor(skill):.2f}x expected"
    if stats.tries == 0:
        return f"{text}; never measured"
    measured = math.exp(stats.mean_gain)
    return (
        f"{text}; measured {measured:.2f}x a try, {stats.wins} wins in {stats.tries} tries on "
        f"{stats.context}; taken as {math.exp(gain):.2f}x"
    )
