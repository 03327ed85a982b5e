"""Recalled plans: judged after the seeds where there is an archive, never twice, base of what follows."""

from pathlib import Path

import pytest
from tests.runs.playing import evaluated, play_killed_after, spec_of, tools_of

from kernelwright.core.budget import Budget
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.plan import Move, Plan
from kernelwright.methods.kernelwright import KERNELWRIGHT
from kernelwright.runs.loop import RunOutcome, Tools, start_run, with_memory
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

SPEEDS = {"a": 1.0, "b": 1.2, "a>served": 2.0, "a>useless": 0.5, "a>served>next": 2.5}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def remember(store: Store, *skills: str) -> None:
    for number, skill in enumerate(skills):
        store.add_plan(
            ArchivedPlan(
                task_id=f"other{number}", task_name="other", target="cpu/cpp",
                plan=Plan(moves=(Move(skill=skill),)), initial_source="i", best_source="b",
                speedup=3.0 - number, run_id=f"earlier{number}",
            )
        )  # fmt: skip


def tools(store: Store) -> Tools:
    team = ScriptedTeam(["a", "b"], ["next"]).team()
    return tools_of(KERNELWRIGHT, KERNELWRIGHT.make_policy(0), store, FakeReferee(SPEEDS), team)


def play(store: Store, **more: object) -> RunOutcome:
    return start_run(with_memory(spec_of(KERNELWRIGHT, **more), store), tools(store))


def test_without_an_archive_a_run_begins_with_its_seeds_alone(store: Store) -> None:
    outcome = play(store)
    assert evaluated(store, outcome.run_id)[:3] == ["a", "b", "b>next"]


def test_plans_of_tasks_like_this_one_are_tried_after_the_seeds(store: Store) -> None:
    remember(store, "served", "useless", "too-many")
    outcome = play(store)
    assert evaluated(store, outcome.run_id)[:5] == ["a", "b", "a>served", "a>useless", "a>served>next"]
    assert outcome.winner is not None and outcome.winner.source == "a>served>next"


def test_what_was_recalled_counts_against_the_budget(store: Store) -> None:
    remember(store, "served", "useless")
    outcome = play(store, budget=Budget(evaluations=3))
    assert evaluated(store, outcome.run_id)[:3] == ["a", "b", "a>served"]
    assert "a>useless" not in evaluated(store, outcome.run_id)


@pytest.mark.parametrize("n_evaluations", [2, 3, 4])
def test_a_killed_run_recalls_the_same(store: Store, tmp_path: Path, n_evaluations: int) -> None:
    remember(store, "served", "useless")
    whole = play(store)
    other = open_store(tmp_path / "other.db")
    remember(other, "served", "useless")
    team = ScriptedTeam(["a", "b"], ["next"]).team()
    policy = KERNELWRIGHT.make_policy(0)
    carried_on = play_killed_after(
        n_evaluations,
        with_memory(spec_of(KERNELWRIGHT), other),
        lambda listen: tools_of(KERNELWRIGHT, policy, other, FakeReferee(SPEEDS), team, listen),
    )
    assert evaluated(other, carried_on.run_id) == evaluated(store, whole.run_id)
