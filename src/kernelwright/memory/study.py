"""How the Librarian learns: run by run, looking only at what is new and at the notes on what it touches.

A note holds what is known of one subject on one task, however many tries that came from. So a run costs what
it tried, not what the store holds.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.run import Outcome
from kernelwright.memory.archive import skills_in_order
from kernelwright.memory.librarian import (
    claims_about,
    from_trials,
    from_winners,
    judge_by,
    key_of,
    may_be_said,
    says_no_more,
    structure_of,
    subject_of,
)
from kernelwright.memory.trials import (
    TaskTrial,
    TrialSubject,
    effect_of,
    subjects_of,
    tells_of_the_skill,
    trial_of,
    values_of,
)
from kernelwright.store.base import Notebook

_SUBJECTS, _WINNERS = "subjects", "winners"


class Learned(NamedTuple):
    """What a study came to."""

    changed: tuple[Finding, ...]
    """New or judged anew."""
    findings: int
    """All there are now."""


def study(book: Notebook) -> Learned:
    """Learn from the outcomes that are new to the notebook.

    Looks at the runs one after the other in the order of the ledger, proposing after each: a finding is taken
    from the tasks up to there, and every later task can prove it. At the end each finding about something
    that was tried is judged. So it is the same whether runs are learned from one by one or all at once, and
    learning twice changes nothing.
    """
    known = list(book.findings())
    before = {finding.id: finding for finding in known}
    notes = _Notes(book)
    touched: set[TrialSubject] = set()
    runs = _runs(book.new_outcomes())
    plans = defaultdict(list)
    for plan in book.plans_of(runs):
        plans[plan.run_id].append(plan)
    for run_id, outcomes in runs.items():
        touched |= notes.take_in(outcomes, plans[run_id])
        known += _propose(notes, outcomes, known)
    changed = []
    for finding in known:
        subject = subject_of(finding)
        if subject is not None and (subject in touched or finding.id not in before):
            finding = judge_by(finding, notes.trials(subject))
        if before.get(finding.id) != finding:
            changed.append(finding)
    notes.save()
    for finding in changed:
        book.add_finding(finding)
    return Learned(tuple(changed), len({finding.id for finding in known}))


def learn(
    outcomes: Iterable[Outcome], plans: Iterable[ArchivedPlan], existing: Sequence[Finding] = ()
) -> tuple[Finding, ...]:
    """Return all findings, the existing ones first, as the whole ledger supports them."""
    book = MemoryNotebook(list(outcomes), list(plans), {finding.id: finding for finding in existing})
    study(book)
    return tuple(book.known.values())


def _propose(notes: "_Notes", outcomes: Sequence[Outcome], known: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return what the notes suggest of what a run tried and no finding says already."""
    found = {key_of(finding): finding for finding in known}
    n_known = len(found)
    tried = {subject for outcome in outcomes for subject in subjects_of(outcome)}
    for subject in sorted(tried | notes.beside(tried), key=lambda s: s.text):
        tally, wide = notes.tally(subject), notes.tally(subject._replace(params=()))
        if says_no_more(subject, tally.structures, tally.bottlenecks, wide.values):
            continue
        unsaid = [claim for claim in claims_about(subject) if (subject.text, claim) not in found]
        if any(may_be_said(claim, tally.won, tally.tasks) for claim in unsaid):
            for finding in from_trials(subject, notes.trials(subject)):
                found.setdefault(key_of(finding), finding)
    measured = {outcome.skill for outcome in outcomes}
    for (target, structure), best_of in sorted(notes.winners().items()):
        for finding in from_winners(target, structure, best_of, measured):
            found.setdefault(key_of(finding), finding)
    return tuple(found.values())[n_known:]


def _runs(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.run_id].append(outcome)
    return groups


@dataclass
class _Tally:
    """What is known of a subject over all tasks."""

    tasks: int = 0
    won: int = 0
    structures: list[str] = field(default_factory=list)
    bottlenecks: list[str] = field(default_factory=list)
    """Kinds that its outcomes were on, sorted."""
    values: list[str] = field(default_factory=list)
    """Values of parameters that its moves had, as texts, sorted."""


class _Notes:
    """The notes on subjects, tasks and winners; read when they are needed, written at the end."""

    def __init__(self, book: Notebook) -> None:
        self._book = book
        self._texts: dict[tuple[str, str], Any] = {}
        self._changed: set[tuple[str, str]] = set()
        self._rows: dict[str, dict[str, list[Any]]] = defaultdict(dict)
        """Trials that are changed and not written yet, by topic."""
        self._tallies: dict[TrialSubject, _Tally] = {}
        self._trials: dict[TrialSubject, dict[str, TaskTrial]] = {}
        self._winners: dict[tuple[str, str], dict[str, tuple[float, list[str]]]] | None = None

    def take_in(self, outcomes: Sequence[Outcome], plans: Sequence[ArchivedPlan]) -> set[TrialSubject]:
        """Add a run to the notes; return what it is about."""
        groups: dict[tuple[TrialSubject, str], list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            for subject in subjects_of(outcome):
                groups[subject, outcome.task_id].append(outcome)
        subjects = {subject for subject, _ in groups}
        self._fetch([(_SUBJECTS, subject.text) for subject in subjects])
        self._fetch([(kind, task) for subject, task in groups for kind in _topics(subject)])
        for (subject, task), group in groups.items():
            self._add(subject, task, group)
        for plan in plans:
            self._enter(plan)
        return subjects

    def tally(self, subject: TrialSubject) -> _Tally:
        """Return what is known of a subject."""
        if subject not in self._tallies:
            self._tallies[subject] = _Tally(**self._get((_SUBJECTS, subject.text), {}))
        return self._tallies[subject]

    def beside(self, subjects: Collection[TrialSubject]) -> set[TrialSubject]:
        """Return the subjects with the other values that were tried in the same context.

        What is said of one value takes that another one was tried, too.
        """
        valued = {subject for subject in subjects if subject.params}
        wide = {subject._replace(params=()) for subject in valued}
        known = ((one, json.loads(text)) for one in wide for text in self.tally(one).values)
        return {one._replace(params=tuple(map(tuple, values))) for one, values in known if values}

    def trials(self, subject: TrialSubject) -> list[TaskTrial]:
        """Return the trials of a subject in the order of tasks."""
        trials, _ = _topics(subject)
        if subject not in self._trials:
            read = {task: json.loads(text) for task, text in self._book.read_topic(trials).items()}
            rows = read | self._rows[trials]
            self._trials[subject] = {task: TaskTrial(task, *row) for task, row in rows.items()}
        return [trial for _, trial in sorted(self._trials[subject].items())]

    def winners(self) -> dict[tuple[str, str], dict[str, list[str]]]:
        """Return the skills of each task's best plan by target and structure."""
        return {key: {task: best[1] for task, best in of.items()} for key, of in self._best().items()}

    def save(self) -> None:
        """Write what has changed."""
        for subject, tally in self._tallies.items():
            self._texts[_SUBJECTS, subject.text] = vars(tally)
        tallied = {(_SUBJECTS, subject.text) for subject in self._tallies}
        changed = self._changed | tallied
        self._book.write({key: json.dumps(self._texts[key]) for key in sorted(changed)})

    def _add(self, subject: TrialSubject, task: str, group: Sequence[Outcome]) -> None:
        tally = self.tally(subject)
        tally.structures = sorted({*tally.structures, *(o.structure for o in group)})
        tally.bottlenecks = sorted({*tally.bottlenecks, *(o.bottleneck for o in group)})
        tally.values = sorted({*tally.values, *(json.dumps(values_of(o.params)) for o in group)})
        telling = [outcome for outcome in group if tells_of_the_skill(outcome)]
        if not telling:
            return
        trials, effects = _topics(subject)
        before = self._get((trials, task), None)
        had = TaskTrial(task, *before) if before else None
        all_effects = [*self._get((effects, task), []), *map(effect_of, telling)]
        failed = (had.failed if had else 0) + sum(not outcome.verified for outcome in telling)
        trial = trial_of(task, all_effects, failed=failed)
        tally.tasks += had is None
        tally.won += trial.is_won - (had.is_won if had else False)
        self._rows[trials][task] = list(trial[1:])
        self._put((trials, task), self._rows[trials][task])
        self._put((effects, task), all_effects)
        if subject in self._trials:
            self._trials[subject][task] = trial

    def _enter(self, plan: ArchivedPlan) -> None:
        """Keep a plan when it is the best of its task."""
        structure = structure_of(plan)
        if structure is None:
            return
        best_of = self._best().setdefault((plan.target, structure), {})
        best = best_of.get(plan.task_id)
        if best is None or best[0] < plan.speedup:
            best_of[plan.task_id] = (plan.speedup, list(skills_in_order(plan.plan)))
            name = json.dumps([plan.target, structure, plan.task_id])
            self._put((_WINNERS, name), list(best_of[plan.task_id]))

    def _best(self) -> dict[tuple[str, str], dict[str, tuple[float, list[str]]]]:
        if self._winners is None:
            self._winners = defaultdict(dict)
            for name, text in self._book.read_topic(_WINNERS).items():
                target, structure, task = json.loads(name)
                speedup, skills = json.loads(text)
                self._winners[target, structure][task] = (speedup, skills)
        return self._winners

    def _fetch(self, keys: Collection[tuple[str, str]]) -> None:
        """Read notes that are not known yet, all at once."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self._texts]
        found = self._book.read(wanted)
        self._texts.update({key: json.loads(found[key]) if key in found else None for key in wanted})

    def _get(self, key: tuple[str, str], default: Any) -> Any:
        self._fetch([key])
        value = self._texts[key]
        return default if value is None else value

    def _put(self, key: tuple[str, str], value: Any) -> None:
        self._texts[key] = value
        self._changed.add(key)


def _topics(subject: TrialSubject) -> tuple[str, str]:
    """Return where the trials of a subject are by task, and where the single tries they come from."""
    return f"trials {subject.text}", f"tries {subject.text}"


@dataclass
class MemoryNotebook(Notebook):
    """A notebook for one study of what is at hand, kept nowhere."""

    outcomes: list[Outcome]
    plans: list[ArchivedPlan]
    known: dict[str, Finding] = field(default_factory=dict)
    notes: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def new_outcomes(self) -> Sequence[Outcome]:
        """Return all outcomes once."""
        new, self.outcomes = self.outcomes, []
        return new

    def plans_of(self, run_ids: Collection[str]) -> Sequence[ArchivedPlan]:
        """See Notebook."""
        return [plan for plan in self.plans if plan.run_id in run_ids]

    def read(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """See Notebook."""
        return {(topic, name): self.notes[topic][name] for topic, name in keys if name in self.notes[topic]}

    def read_topic(self, topic: str) -> Mapping[str, str]:
        """See Notebook."""
        return dict(self.notes[topic])

    def write(self, notes: Mapping[tuple[str, str], str]) -> None:
        """See Notebook."""
        for (topic, name), text in notes.items():
            self.notes[topic][name] = text

    def findings(self) -> Sequence[Finding]:
        """See Notebook."""
        return list(self.known.values())

    def add_finding(self, finding: Finding) -> None:
        """See Notebook."""
        self.known[finding.id] = finding
