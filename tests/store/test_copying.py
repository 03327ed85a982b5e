"""Export and import: a round trip loses nothing, a second time adds nothing, and what is there stays."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kernelwright.core.budget import Spent
from kernelwright.core.events import CandidateWritten, RunFinished
from kernelwright.core.run import RunState
from kernelwright.store import schema
from kernelwright.store.copying import copy_runs
from kernelwright.store.lease import Owner
from kernelwright.store.sqlstore import SqlStore, open_store
from kernelwright.testing.store_contract import (
    make_candidate,
    make_finding,
    make_model_call,
    make_outcome,
    make_plan,
    make_spec,
)

FINISHED = RunFinished(reason="done", winner="c1", evaluation=None, spent=Spent())
COMPARED = [
    table
    for table in schema.metadata.sorted_tables
    if table not in (schema.writers, schema.notes, schema.leases, schema.alembic_version)
]
"""What one run leaves to others is among it; who is at work, and what is made anew, is not."""
NUMBERS = ("position", "call_id", "plan_id", "outcome_id")


def opened(where: Path | str) -> SqlStore:
    store = open_store(where)
    assert isinstance(store, SqlStore)
    return store


def fill(store: SqlStore, n: int, *, is_ended: bool = True) -> str:
    """Write a run with everything that a run can have."""
    run_id = store.create_run(make_spec(seed=n, experiment="e" if n % 2 else None))
    store.add_candidates(run_id, [make_candidate(f"source {n} {i}") for i in range(3)])
    store.add_candidate(run_id, make_candidate(f"shared = 1  # in the words of {n}"))
    store.append_events(run_id, [CandidateWritten(step=i, candidate=f"c{i}") for i in range(4)])
    store.add_model_call(run_id, make_model_call(n, detail="429\x00é"))
    if is_ended:
        finish(store, run_id, n)
    return run_id


def finish(store: SqlStore, run_id: str, n: int) -> None:
    """End a run with three outcomes and a plan."""
    left = [make_outcome(i, run_id=run_id, log_speedup=i / 10) for i in range(3)]
    store.close_run(run_id, FINISHED, left, make_plan(n, run_id=run_id))
    store.set_state(run_id, RunState.FINISHED)


def content(store: SqlStore) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table in order of its key, without the numbers that a store gives."""
    return {
        table.name: [
            tuple(value for name, value in row._mapping.items() if name not in NUMBERS)
            for row in store.rows(sa.select(table).order_by(*table.primary_key))
        ]
        for table in COMPARED
    }


@pytest.fixture
def full(tmp_path: Path) -> SqlStore:
    """A store with runs that ended and one that did not, findings and outcomes without a run."""
    store = opened(tmp_path / "full.db")
    store.add_outcome(make_outcome(7, run_id="lost"))
    for n in range(4):
        fill(store, n)
    fill(store, 4, is_ended=False)
    store.add_finding(make_finding(1))
    store.add_finding(make_finding(2, state="admitted"))
    return store


def test_a_copy_holds_the_same_and_a_second_one_adds_nothing(full: SqlStore, tmp_path: Path) -> None:
    copy = opened(tmp_path / "copy.db")
    copied = copy_runs(full, copy)
    assert (copied.runs, copied.outcomes, copied.plans, copied.findings) == (5, 13, 4, 2)
    assert content(copy) == content(full)
    again = copy_runs(full, copy)
    assert again.model_dump() == {
        "runs": 0, "carried_on": 0, "unchanged": 5, "at_work": (), "diverged": (), "outcomes": 0, "plans": 0,
        "findings": 0,
    }  # fmt: skip
    assert content(copy) == content(full)
    back = copy_runs(copy, full)
    assert (back.runs, back.outcomes, back.unchanged) == (0, 0, 5)


def test_nothing_is_lost_on_the_way_to_a_server_and_back(
    full: SqlStore, database: str, tmp_path: Path
) -> None:
    there, back = opened(database), opened(tmp_path / "back.db")
    copy_runs(full, there)
    assert content(there) == content(full)
    assert copy_runs(full, there).runs == 0
    copy_runs(there, back)
    assert content(back) == content(full)
    assert copy_runs(there, full).unchanged == 5
    run_id = fill(there, 9)  # numbers go on after those that came from elsewhere
    assert [plan.run_id for plan in there.newest_plans("cpu/cpp", 1)] == [run_id]
    there.close()


def test_two_stores_flow_together(full: SqlStore, tmp_path: Path) -> None:
    other = opened(tmp_path / "other.db")
    own = fill(other, 8)
    copy_runs(full, other)
    assert len(list(other.iter_runs())) == 6 and other.count_learned() == (16, 5)
    for run in full.iter_runs():
        assert other.get_run(run.run_id) == run
        assert list(other.iter_candidates(run.run_id)) == list(full.iter_candidates(run.run_id))
        assert list(other.iter_events(run.run_id)) == list(full.iter_events(run.run_id))
        assert list(other.iter_model_calls(run.run_id)) == list(full.iter_model_calls(run.run_id))
    assert "in the words of 8" in list(other.iter_candidates(own))[-1].source
    sums = {key: tally.tries for key, tally in other.tallies().items()}
    assert sum(sums.values()) == 16


def test_only_the_named_runs_are_copied(full: SqlStore, tmp_path: Path) -> None:
    copy = opened(tmp_path / "copy.db")
    wanted = next(full.iter_runs()).run_id
    assert copy_runs(full, copy, [wanted]).runs == 1
    assert [run.run_id for run in copy.iter_runs()] == [wanted]
    assert {outcome.run_id for _, outcome in copy.iter_outcomes()} == {wanted}


def test_a_run_that_went_on_is_brought_up_to_date(full: SqlStore, tmp_path: Path) -> None:
    copy = opened(tmp_path / "copy.db")
    copy_runs(full, copy)
    run_id = full.newest_runs(1)[0].run_id
    full.add_candidate(run_id, make_candidate("later"))
    full.close_run(run_id, FINISHED, [make_outcome(run_id=run_id)], None)
    full.set_state(run_id, RunState.FINISHED)
    copied = copy_runs(full, copy)
    assert (copied.runs, copied.carried_on, copied.outcomes) == (0, 1, 1)
    assert content(copy) == content(full)


def test_a_run_that_went_on_otherwise_there_stays(full: SqlStore, tmp_path: Path) -> None:
    copy = opened(tmp_path / "copy.db")
    copy_runs(full, copy)
    run_id = full.newest_runs(1)[0].run_id
    copy.append_event(run_id, CandidateWritten(step=9, candidate="there"))
    full.append_events(run_id, [CandidateWritten(step=9, candidate=name) for name in ("here", "more")])
    before = content(copy)
    copied = copy_runs(full, copy)
    assert (copied.diverged, copied.carried_on, copied.unchanged) == ((run_id,), 0, 4)
    assert content(copy) == before


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.FAILED])
def test_a_run_that_finished_here_and_went_on_otherwise_there_leaves_nothing_there(
    full: SqlStore, tmp_path: Path, state: RunState
) -> None:
    copy = opened(tmp_path / "copy.db")
    copy_runs(full, copy)
    run_id = full.newest_runs(1)[0].run_id
    copy.append_event(run_id, CandidateWritten(step=9, candidate="there"))
    copy.set_state(run_id, state)
    finish(full, run_id, 11)
    before = content(copy)
    copied = copy_runs(full, copy)
    assert (copied.diverged, copied.outcomes, copied.plans) == ((run_id,), 0, 0)
    assert content(copy) == before
    finish(copy, run_id, 12)
    assert [outcome.run_id for _, outcome in copy.iter_outcomes()].count(run_id) == 3
    again = copy_runs(full, copy)
    assert (again.unchanged, again.outcomes, again.plans) == (5, 0, 0)


def test_a_run_that_failed_there_and_was_taken_up_here_is_brought_up_to_date(
    full: SqlStore, tmp_path: Path
) -> None:
    copy = opened(tmp_path / "copy.db")
    run_id = full.newest_runs(1)[0].run_id
    full.set_state(run_id, RunState.FAILED, "no compiler")
    copy_runs(full, copy)
    assert copy_runs(full, copy).unchanged == 5
    finish(full, run_id, 11)
    assert copy_runs(full, copy).carried_on == 1 and content(copy) == content(full)


@pytest.mark.parametrize("is_here", [True, False])
def test_a_run_that_is_at_work_is_left_out(full: SqlStore, tmp_path: Path, is_here: bool) -> None:
    copy = opened(tmp_path / "copy.db")
    if not is_here:
        copy_runs(full, copy)
    run_id = full.newest_runs(1)[0].run_id
    (full if is_here else copy).take_lease(run_id, Owner.here())
    full.append_event(run_id, CandidateWritten(step=9, candidate="more"))
    copied = copy_runs(full, copy)
    assert copied.at_work == (run_id,) and copied.carried_on == 0
    assert copied.runs == (4 if is_here else 0)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_run_that_is_taken_up_there_meanwhile_keeps_what_is_written(
    full: SqlStore, tmp_path: Path, is_kept: bool
) -> None:
    copy, other = opened(tmp_path / "copy.db"), opened(tmp_path / "copy.db")
    copy_runs(full, copy)
    run_id = full.newest_runs(1)[0].run_id
    full.append_event(run_id, CandidateWritten(step=9, candidate="here"))

    def carry_on(done: int, of: int) -> None:
        """After the copy has looked at the runs, before it writes."""
        lease = other.take_lease(run_id, Owner.here())
        other.append_event(run_id, CandidateWritten(step=9, candidate="there"))
        if not is_kept:
            other.release_lease(lease)

    copied = copy_runs(full, copy, say=carry_on)
    assert copied.at_work == ((run_id,) if is_kept else ()) and copied.carried_on == 0
    assert copied.diverged == (() if is_kept else (run_id,))
    last = list(other.iter_events(run_id))[-1].event
    assert isinstance(last, CandidateWritten) and last.candidate == "there"


def test_an_import_within_another_adds_nothing_twice(
    full: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, other = opened(tmp_path / "copy.db"), opened(tmp_path / "copy.db")
    parsed = full.parsed

    def meanwhile(parse: Any, payload: str) -> Any:
        """After the copy has looked which outcomes are there, before it writes them."""
        monkeypatch.undo()
        copy_runs(full, other)
        return parsed(parse, payload)

    monkeypatch.setattr(full, "parsed", meanwhile)
    copied = copy_runs(full, copy)
    assert (copied.runs, copied.outcomes, copied.plans, copied.findings) == (5, 0, 0, 0)
    assert content(copy) == content(full)


def test_imports_at_once_into_a_server_add_nothing_twice(full: SqlStore, database: str) -> None:
    copies = [opened(database) for _ in range(3)]
    with ThreadPoolExecutor(len(copies)) as threads:
        copied = list(threads.map(lambda copy: copy_runs(full, copy), copies))
    assert sum(one.runs for one in copied) == 5 and sum(one.outcomes for one in copied) == 13
    assert content(copies[0]) == content(full)
    for copy in copies:
        copy.close()
