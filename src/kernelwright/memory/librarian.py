"""The Librarian's rules: from what was tried to findings, and their proof on other tasks.

``memory/study.py`` applies them run by run. Pure and deterministic. The unit of evidence is the task, not the
try: ten tries on one task tell of one task (``memory/trials.py``). All thresholds are ours.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal, TypeAlias

from kernelwright.core.intervals import mean_interval, wilson
from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.run import Outcome
from kernelwright.memory.archive import skills_in_order
from kernelwright.memory.trials import TaskTrial, TrialSubject, subjects_of, trials_of, values_of

Z_PROPOSE = 1.96
"""Two-sided 95 %: many skills are looked at in many contexts, so a proposal must not come cheap."""
Z_PROVE = 1.645
"""One-sided 95 %: one claim, tested on tasks that had no part in it."""
HELPS_SHARE = 0.5
"""``helps``: the share of tasks won lies above. Takes 4 of 4 or 7 of 8 tasks to propose, 3 of 3 to prove."""
USELESS_SHARE = 0.3
"""``does_not_help``: the share lies below. Takes 0 of 9 tasks to propose, 0 of 7 to prove."""
USELESS_GAIN = math.log(1.05)
"""... and the mean gain too: what rarely helps but then a lot is not useless."""

Claim: TypeAlias = Literal["helps", "does_not_help"]
CLAIMS: tuple[Claim, ...] = ("helps", "does_not_help")


def propose(
    outcomes: Sequence[Outcome], plans: Sequence[ArchivedPlan], existing: Sequence[Finding] = ()
) -> tuple[Finding, ...]:
    """Return what the outcomes and the winners' plans suggest and no existing finding says already.

    Whatever its state, an existing finding on the same skill, target, structure and bottleneck with the same
    claim stands for itself: it is judged again as outcomes come in, never proposed twice.
    """
    found = {key_of(finding): finding for finding in existing}
    n_existing = len(found)
    for finding in (*_from_outcomes(outcomes), *_from_plans(plans, {o.skill for o in outcomes})):
        found.setdefault(key_of(finding), finding)
    return tuple(found.values())[n_existing:]


def judge(finding: Finding, outcomes: Iterable[Outcome]) -> Finding:
    """Return the finding in the state that the outcomes on tasks it was not taken from put it in.

    Admitted when they support its claim, rejected when they support its opposite (see the thresholds above),
    proposed while they say neither. ``outcomes`` is all that is known, also of the tasks it was taken from,
    which are left out here. Nothing changes when no other task was tried, or when it claims nothing that
    could be measured.
    """
    subject = subject_of(finding)
    if subject is None:
        return finding
    own = set(finding.taken_from)
    return judge_by(finding, trials_of(o for o in outcomes if o.task_id not in own and subject.covers(o)))


def subject_of(finding: Finding) -> TrialSubject | None:
    """Return what a finding makes a claim about, None where measurements cannot decide."""
    if finding.skill is None or finding.claim is None:
        return None
    where = finding.structure, finding.bottleneck
    return TrialSubject(finding.skill, finding.target, *where, values_of(finding.params))


def judge_by(finding: Finding, trials: Sequence[TaskTrial]) -> Finding:
    """Return the finding in the state that the trials of its subject put it in, without its own tasks."""
    own = set(finding.taken_from)
    others = [trial for trial in trials if trial.task_id not in own]
    if finding.claim is None or not others:
        return finding
    proof = tuple(_proof_line(trial) for trial in others)
    return finding.model_copy(update={"state": _verdict(finding.claim, others), "proof": proof})


def _verdict(claim: Claim, trials: Sequence[TaskTrial]) -> Literal["proposed", "admitted", "rejected"]:
    if _supports(claim, trials, Z_PROVE):
        return "admitted"
    share = wilson(sum(trial.is_won for trial in trials), len(trials), Z_PROVE)
    contradicted = share.high < HELPS_SHARE if claim == "helps" else share.low > USELESS_SHARE
    return "rejected" if contradicted else "proposed"


def _supports(claim: Claim, trials: Sequence[TaskTrial], z: float) -> bool:
    if not may_be_said(claim, sum(trial.is_won for trial in trials), len(trials), z):
        return False
    return claim == "helps" or mean_interval(_gains(trials), z).high < USELESS_GAIN


def may_be_said(claim: Claim, won: int, n: int, z: float = Z_PROPOSE) -> bool:
    """Tell whether so many tasks won of so many allow a claim; it may take more to support it."""
    share = wilson(won, n, z)
    return share.low > HELPS_SHARE if claim == "helps" else share.high < USELESS_SHARE


def _gains(trials: Sequence[TaskTrial]) -> list[float]:
    return [max(trial.effect, 0.0) for trial in trials]


def _from_outcomes(outcomes: Sequence[Outcome]) -> Iterator[Finding]:
    groups: dict[TrialSubject, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        for subject in subjects_of(outcome):
            groups[subject].append(outcome)
    for subject in sorted(groups, key=lambda s: s.text):
        group, wide = groups[subject], groups[subject._replace(params=())]
        values = {values_of(o.params) for o in wide}
        if says_no_more(subject, {o.structure for o in group}, {o.bottleneck for o in group}, values):
            continue
        yield from from_trials(subject, trials_of(group))


def from_trials(subject: TrialSubject, trials: Sequence[TaskTrial]) -> Iterator[Finding]:
    """Yield what the trials of a subject suggest."""
    for claim in claims_about(subject):
        if _supports(claim, trials, Z_PROPOSE):
            yield _finding(subject, claim, trials)


def claims_about(subject: TrialSubject) -> tuple[Claim, ...]:
    """Return what may be claimed: values of parameters are only ever recommended."""
    return ("helps",) if subject.params else CLAIMS


def says_no_more(
    subject: TrialSubject,
    structures: Collection[str],
    bottlenecks: Collection[str],
    values: Collection[object],
) -> bool:
    """Tell whether what it leaves open was always the same: "on any task" from scans alone.

    Or whether it names values where no others were ever tried.
    """
    return (
        (subject.structure is None and len(structures) == 1)
        or (subject.bottleneck is None and len(bottlenecks) == 1)
        or (bool(subject.params) and len(values) == 1)
    )


def _from_plans(plans: Iterable[ArchivedPlan], measured: set[str]) -> Iterator[Finding]:
    """Propose skills that most winners of a structure kept; only winners are archived, so it is a hint.

    Skills that no outcome is about are seeds or cannot be judged, and are left out.
    """
    groups: dict[tuple[str, str], dict[str, ArchivedPlan]] = defaultdict(dict)
    for plan in plans:
        structure = structure_of(plan)
        if structure is not None:
            best = groups[plan.target, structure].get(plan.task_id)
            if best is None or best.speedup < plan.speedup:
                groups[plan.target, structure][plan.task_id] = plan
    for (target, structure), best_of in sorted(groups.items()):
        skills = {task: skills_in_order(plan.plan) for task, plan in best_of.items()}
        yield from from_winners(target, structure, skills, measured)


def structure_of(plan: ArchivedPlan) -> str | None:
    """Return the structure of the task that the plan won on, None where it is not known."""
    structure = plan.signature.get("graph.structure")
    return structure if isinstance(structure, str) else None


def from_winners(
    target: str, structure: str, best_of: Mapping[str, Sequence[str]], measured: Collection[str]
) -> Iterator[Finding]:
    """Yield what the skills of each task's best plan suggest of the measured ones."""
    kept = list(best_of.values())
    if kept:
        for skill in sorted({skill for skills in kept for skill in skills} & set(measured)):
            n_kept = sum(skill in skills for skills in kept)
            if wilson(n_kept, len(kept), Z_PROPOSE).low > HELPS_SHARE:
                subject = TrialSubject(skill, target, structure, None)
                text = f"{_where(subject)}, {skill} is in the best plan of {n_kept} of {len(kept)} tasks."
                yield _new(subject, "helps", text, best_of)


def _finding(subject: TrialSubject, claim: Claim, trials: Sequence[TaskTrial]) -> Finding:
    won, n = sum(trial.is_won for trial in trials), len(trials)
    middle = math.exp(median(trial.effect for trial in trials))
    if claim == "helps":
        said = f"{_what(subject)} gave {middle:.2f}x in the median and gained on {won} of {n} tasks"
    else:
        hardly = "hardly" if won else "never"
        said = f"{subject.skill} {hardly} helped: it gained on {won} of {n} tasks"
    text = f"{_where(subject)}, {said} ({_count_tries(trials)})."
    return _new(subject, claim, text, (trial.task_id for trial in trials))


def _new(subject: TrialSubject, claim: Claim, text: str, tasks: Iterable[str]) -> Finding:
    about = {**subject._asdict(), "params": dict(subject.params)}
    return Finding(text=text, claim=claim, taken_from=tuple(sorted(tasks)), **about)


def _what(subject: TrialSubject) -> str:
    values = ", ".join(f"{name}={value}" for name, value in subject.params)
    return f"{subject.skill} with {values}" if values else subject.skill


def _where(subject: TrialSubject) -> str:
    tasks = f"On {subject.structure.replace('_', ' ')} tasks" if subject.structure else "On tasks of any kind"
    return tasks + (f" limited by {subject.bottleneck.replace('_', ' ')}" if subject.bottleneck else "")


def _count_tries(trials: Sequence[TaskTrial]) -> str:
    n, failed = sum(trial.tries for trial in trials), sum(trial.failed for trial in trials)
    return f"{n} tries, {failed} of them failed" if failed else f"{n} tries"


def _proof_line(trial: TaskTrial) -> str:
    n = trial.tries
    tries = f"median of {n} tries" if n > 1 else "1 try"
    failed = f", {trial.failed} failed" if trial.failed else ""
    return f"task {trial.task_id}: {math.exp(trial.effect):.2f}x, {tries}{failed}"


def key_of(finding: Finding) -> tuple[str | None, ...]:
    """Return what makes two findings say the same of the same."""
    subject = subject_of(finding)
    return (finding.id,) if subject is None else (subject.text, finding.claim)
