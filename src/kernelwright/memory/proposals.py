"""Skills that the Librarian proposes: an edit with the values of its parameters that won again and again.

A proposal is a finding about values in one context, written as a skill. So it is proposed, admitted and
revoked by the rules of ``memory/librarian.py``. Pure and deterministic.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal

from kernelwright.core.evidence import Bottleneck
from kernelwright.core.frozen import Frozen
from kernelwright.core.intervals import mean_interval, wilson
from kernelwright.core.learned import Finding
from kernelwright.core.run import Outcome
from kernelwright.core.skill import Expectation, Skill
from kernelwright.memory.librarian import Z_PROPOSE, subject_of
from kernelwright.memory.trials import MARGIN, TaskTrial, trials_of
from kernelwright.skills.lint import STRUCTURES, SkillTarget


class TaskEvidence(Frozen):
    """What was measured of a decision on some tasks, each counted once; intervals of 95 %."""

    tasks: int
    won: int
    share_won: tuple[float, float]
    speedup: tuple[float, float] | None
    """Of the mean over tasks; None below two tasks."""


class SkillProposal(Frozen):
    """A skill that nobody wrote, and how far its evidence has come."""

    skill: Skill
    state: Literal["proposed", "admitted", "rejected"]
    finding: str
    """Id of the finding that it is made from."""
    made_from: TaskEvidence
    since: TaskEvidence
    """On the tasks that had no part in the proposal; this decides its state."""


def skill_proposals(
    findings: Iterable[Finding],
    outcomes: Iterable[Outcome],
    skills: Mapping[str, Skill],
    targets: Mapping[str, SkillTarget],
) -> tuple[SkillProposal, ...]:
    """Return what the findings propose and none of ``skills`` says already, in order of name.

    A proposal names the edit of its skill where ``targets`` have that edit; elsewhere it is guidance. Left
    out are findings about skills that are not among ``skills``: nobody says what their values mean.
    """
    known = list(outcomes)
    found = []
    for finding in (finding for finding in findings if finding.params):
        subject, parent = subject_of(finding), skills.get(finding.skill or "")
        if subject is None or parent is None or not _is_sayable(finding, targets):
            continue
        if not any(_says_already(skill, parent, finding) for skill in skills.values()):
            lowerings = targets[finding.target].lowerings
            here = parent if parent.lowering in lowerings else parent.model_copy(update={"lowering": None})
            proposal = _proposal(finding, here, trials_of(o for o in known if subject.covers(o)))
            found.append(proposal)
    return tuple(sorted(found, key=lambda proposal: (proposal.skill.name, proposal.finding)))


def _is_sayable(finding: Finding, targets: Mapping[str, SkillTarget]) -> bool:
    """Tell whether a skill can be for this context."""
    answered = finding.bottleneck in set(Bottleneck) - {Bottleneck.AT_FLOOR}
    return answered and finding.structure in STRUCTURES and finding.target in targets


def _says_already(skill: Skill, parent: Skill, finding: Finding) -> bool:
    """Tell whether a skill carries out the same edit there and tries the same values first."""
    first = {name: values[0] for name, values in skill.params.items() if values}
    return (
        (skill.name == parent.name if parent.lowering is None else skill.lowering == parent.lowering)
        and first == finding.params
        and finding.target in skill.targets
        and finding.bottleneck in skill.bottlenecks
        and (not skill.structures or finding.structure in skill.structures)
    )


def _proposal(finding: Finding, parent: Skill, trials: Sequence[TaskTrial]) -> SkillProposal:
    own = _evidence([trial for trial in trials if trial.task_id in finding.taken_from])
    others = _evidence([trial for trial in trials if trial.task_id not in finding.taken_from])
    skill = _skill(finding, parent, median([trial.effect for trial in trials] or [MARGIN]))
    said = f"{finding.text}\nTasks won, of these: {_shown(own)}; of others: {_shown(others)}."
    _, how, rest = parent.body.partition("## How\n")
    body = f"## When\n{said}\n\n{how}Take {_values(finding)}. {rest}"
    return SkillProposal(
        skill=skill.model_copy(update={"body": body}),
        state=finding.state,
        finding=finding.id,
        made_from=own,
        since=others,
    )


def _evidence(trials: Sequence[TaskTrial]) -> TaskEvidence:
    won = sum(trial.is_won for trial in trials)
    mean = mean_interval([trial.effect for trial in trials], Z_PROPOSE)
    return TaskEvidence(
        tasks=len(trials),
        won=won,
        share_won=wilson(won, len(trials), Z_PROPOSE),
        speedup=(math.exp(mean.low), math.exp(mean.high)) if len(trials) > 1 else None,
    )


def _shown(evidence: TaskEvidence) -> str:
    low, high = evidence.share_won
    share = f"{evidence.won} of {evidence.tasks}, a share of {low:.2f} to {high:.2f}"
    return share if evidence.tasks else "none tried"


def _skill(finding: Finding, parent: Skill, effect: float) -> Skill:
    factor = round(math.exp(max(effect, MARGIN)), 3)
    return parent.model_copy(
        update={
            "name": _name(finding),
            "summary": f"{parent.summary.rstrip('.')}, with {_values(finding)}.",
            "targets": (finding.target,),
            "bottlenecks": (Bottleneck(finding.bottleneck or ""),),
            "structures": (finding.structure,),
            "params": {name: (value,) for name, value in finding.params.items()},
            "expects": (Expectation(metric="run.latency_ms", direction="down", factor=factor),),
            "narrows": parent.name,
            "sources": (f"Finding {finding.id} of the Librarian", *parent.sources),
        }
    )


def _name(finding: Finding) -> str:
    values = (part for item in finding.params.items() for part in map(str, item))
    where = (finding.target, finding.structure or "", finding.bottleneck or "")
    words = (finding.skill or "", *values, "on", *where)
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def _values(finding: Finding) -> str:
    return ", ".join(f"{name} = {value}" for name, value in finding.params.items())
