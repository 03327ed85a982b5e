"""Learning run by run comes to what learning from everything would, and looks only at what a run touched."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.plan import Move, Plan
from kernelwright.core.run import Outcome
from kernelwright.memory.ledger import Ledger
from kernelwright.memory.librarian import judge, propose
from kernelwright.memory.study import MemoryNotebook, learn, study
from kernelwright.store.sqlstore import open_store

SEEDS = st.integers(0, 2**32)
TASKS = {f"t{n}": structure for n, structure in enumerate(["reduction", "scan"] * 6)}


def learned_from_all(
    outcomes: Sequence[Outcome], plans: Sequence[ArchivedPlan], existing: Sequence[Finding] = ()
) -> list[Finding]:
    """The rule itself, with no notes: after every run propose from all so far, at the end judge by all."""
    known, seen = list(existing), list[Outcome]()
    for run_id in dict.fromkeys(outcome.run_id for outcome in outcomes):
        group = [outcome for outcome in outcomes if outcome.run_id == run_id]
        seen += group
        runs = {outcome.run_id for outcome in seen}
        touched = {outcome.skill for outcome in group}
        archived = [plan for plan in plans if plan.run_id in runs]
        known += propose([outcome for outcome in seen if outcome.skill in touched], archived, known)
    return [judge(finding, outcomes) for finding in known]


@dataclass(frozen=True)
class Run:
    """What one run left."""

    run_id: str
    outcomes: tuple[Outcome, ...]
    plan: ArchivedPlan | None


def outcome(run_id: str, task: str, skill: str, effect: float | None, **changes: Any) -> Outcome:
    fields = {
        "target": "cpu/cpp",
        "structure": TASKS.get(task, "scan"),
        "bottleneck": "memory",
        "coder": "expert",
    }
    verified = effect is not None
    return Outcome(
        run_id=run_id, task_id=task, skill=skill, move_key="m", verified=verified, log_speedup=effect,
        **(fields | changes),
    )  # fmt: skip


def runs(seed: int, count: int = 24) -> list[Run]:
    """A history of runs; what a skill does hangs on the skill, so that there is something to learn."""
    rng, history = random.Random(seed), []
    for n in range(count):
        run_id, task = f"run-{n:03}", rng.choice(sorted(TASKS))
        outcomes = []
        for _ in range(rng.randrange(4)):
            skill = rng.choice(["good", "idle", "mixed"])
            effect = {"good": 0.3, "idle": 0.0, "mixed": rng.gauss(0, 0.2)}[skill] + rng.gauss(0, 0.005)
            changes = {
                "bottleneck": rng.choice(["memory", "compute"]),
                "coder": rng.choice(["expert", "expert", "llm"]),
                "params": {"width": rng.choice([4, 4, 4, 8])} if skill == "good" else {},
            }
            outcomes.append(outcome(run_id, task, skill, None if rng.random() < 0.1 else effect, **changes))
        skills = rng.choices(["good", "idle"], [3, 1], k=rng.randrange(3))
        history.append(Run(run_id, tuple(outcomes), archived(run_id, task, skills, 1.0 + n / 64)))
    return history


def archived(run_id: str, task: str, skills: Sequence[str], speedup: float) -> ArchivedPlan:
    return ArchivedPlan(
        task_id=task, task_name=task, target="cpu/cpp", signature={"graph.structure": TASKS[task]},
        plan=Plan(moves=tuple(Move(skill=skill) for skill in skills)), initial_source="a", best_source="b",
        speedup=speedup, run_id=run_id,
    )  # fmt: skip


def outcomes_of(history: Sequence[Run]) -> list[Outcome]:
    return [outcome for run in history for outcome in run.outcomes]


def plans_of(history: Sequence[Run]) -> list[ArchivedPlan]:
    return [run.plan for run in history if run.plan is not None]


@settings(max_examples=25)
@given(SEEDS)
def test_it_comes_to_what_learning_from_everything_comes_to(seed: int) -> None:
    history = runs(seed)
    outcomes, plans = outcomes_of(history), plans_of(history)
    assert list(learn(outcomes, plans)) == learned_from_all(outcomes, plans)


@settings(max_examples=10)
@given(SEEDS, st.sets(st.integers(0, 24)))
def test_learning_after_some_runs_comes_to_the_same_as_after_all(seed: int, pauses: set[int]) -> None:
    history = runs(seed)
    store = open_store("sqlite://")
    for n, run in enumerate(history):
        for tried in run.outcomes:
            store.add_outcome(tried)
        if run.plan is not None:
            store.add_plan(run.plan)
        if n in pauses:
            store.learn(study)
    store.learn(study)
    whole = learned_from_all(outcomes_of(history), plans_of(history))
    assert list(store.iter_findings()) == whole
    assert store.learn(study).changed == () == store.learn(study, anew=True).changed
    assert list(store.iter_findings()) == whole
    store.close()


def test_there_is_something_to_learn_in_these_histories() -> None:
    history = [
        Run(
            f"run-{n}",
            (outcome(f"run-{n}", task, "good", 0.3, params={"width": 4 if n % 12 > 1 else 8}),),
            archived(f"run-{n}", task, ["good"], 1.5),
        )
        for n, task in enumerate([*TASKS, *TASKS])
    ]
    found = learn(outcomes_of(history), plans_of(history))
    assert "admitted" in {finding.state for finding in found} and len(found) > 1
    assert any(finding.params for finding in found)


def test_values_are_proposed_once_others_were_tried_beside_them() -> None:
    widths = [4, 4, 4, 4, 8, 4, 4, 4]
    tried = [outcome(f"r{n}", f"new-{n}", "good", 0.3, params={"width": w}) for n, w in enumerate(widths)]
    store, said = open_store("sqlite://"), []
    for n, one in enumerate(tried):
        store.add_outcome(one)
        store.learn(study)
        found = list(store.iter_findings())
        assert found == learned_from_all(tried[: n + 1], [])
        said.append([(finding.params, finding.state) for finding in found if finding.params])
    store.close()
    assert said[3:5] == [[], [({"width": 4}, "proposed")]]
    assert said[7] == [({"width": 4}, "admitted")]


class CountingNotebook(MemoryNotebook):
    """Counts the notes that are read and written."""

    read_notes = written_notes = 0

    def read(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        self.read_notes += len(keys)
        return super().read(keys)

    def read_topic(self, topic: str) -> Mapping[str, str]:
        found = super().read_topic(topic)
        self.read_notes += len(found)
        return found

    def write(self, notes: Mapping[tuple[str, str], str]) -> None:
        self.written_notes += len(notes)
        super().write(notes)


def notes_for_one_more_run(n_before: int, tasks: int) -> tuple[int, int]:
    """Return how many notes are read and written for a run after so many others."""

    def tries(n: int) -> list[Outcome]:
        effects = {"good": 0.3, "idle": 0.0, "other": -0.2}
        return [outcome(f"run-{n}", f"t{n % tasks}", skill, effect) for skill, effect in effects.items()]

    book = CountingNotebook([o for n in range(n_before) for o in tries(n)], [])
    study(book)
    book.read_notes = book.written_notes = 0
    book.outcomes = tries(n_before)
    study(book)
    return book.read_notes, book.written_notes


def test_a_run_costs_what_it_touched_however_much_was_tried_before() -> None:
    few, many = notes_for_one_more_run(24, tasks=12), notes_for_one_more_run(1200, tasks=12)
    assert few == many and few[1] == 3 * 4 * 3  # skills x subjects x notes on each


@pytest.mark.parametrize("coder", [None, "expert", "llm"])
@settings(max_examples=5)
@given(SEEDS, SEEDS)
def test_a_ledger_with_more_is_the_ledger_of_both(coder: str | None, before: int, after: int) -> None:
    first, second = outcomes_of(runs(before)), outcomes_of(runs(after, count=3))
    more, whole = Ledger(first, coder).plus(second), Ledger([*first, *second], coder)
    assert len(more) == len(whole) and more.effects() == whole.effects()
    for skill in ("good", "idle", "mixed", "never tried"):
        for structure in ("reduction", "scan", "window"):
            for bottleneck in ("memory", "compute"):
                assert more.stats(skill, structure, bottleneck) == whole.stats(skill, structure, bottleneck)
