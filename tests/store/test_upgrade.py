"""A store of an older version is brought up to date when it is opened, and loses nothing."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernelwright.core.errors import StoreError
from kernelwright.core.run import RunState
from kernelwright.store import schema
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.store_contract import make_finding, make_model_call, make_plan

RUN = "1qf9h31pz2e"
VERSION_1 = Path(__file__).with_name("version_1.sql")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file as version 1 wrote it."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(VERSION_1.read_text(encoding="utf-8"))
    connection.close()
    return path


def layout(path: Path) -> dict[str, set[tuple[object, ...]]]:
    """Return columns and indexes of every table, as SQLite itself describes them."""
    connection = sqlite3.connect(path)
    try:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        ours = [name for name in names if not name.startswith("sqlite_")]
        return {
            name: {tuple(row[1:]) for row in connection.execute(f"PRAGMA table_info({name})")}
            | {(row[1], row[2]) for row in connection.execute(f"PRAGMA index_list({name})")}
            for name in ours
        }
    finally:
        connection.close()


def version(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0])
    finally:
        connection.close()


def test_everything_in_a_version_1_file_stays_readable(old: Path) -> None:
    store = open_store(old)
    record = store.get_run(RUN)
    assert (record.state, record.spec.task.name) == (RunState.FINISHED, "double")
    kinds = [stored.event.kind for stored in store.iter_events(RUN)]
    assert kinds == [
        "run_started",
        "task_prepared",
        "step_started",
        "candidate_written",
        "candidate_evaluated",
        "run_finished",
    ]
    evaluation = store.find_evaluation(RUN, "380b276385045413")
    assert evaluation is not None and evaluation.geomean_speedup() == pytest.approx(3.0)
    assert [c.plan.moves[0].skill for c in store.iter_candidates(RUN)] == ["library-seed"]
    assert [(n, outcome.skill) for n, outcome in store.iter_outcomes()] == [(1, "tile-columns")]


def test_an_upgraded_file_takes_what_version_1_could_not_hold(old: Path) -> None:
    store = open_store(old)
    store.add_model_call(RUN, make_model_call())
    store.add_finding(make_finding())
    store.add_plan(make_plan())
    store.close()
    again = open_store(old)
    assert list(again.iter_model_calls(RUN)) == [make_model_call()]
    assert list(again.iter_findings()) == [make_finding()]
    assert [plan for _, plan in again.iter_plans()] == [make_plan()]


def test_an_upgraded_file_has_the_layout_of_a_new_one(old: Path, tmp_path: Path) -> None:
    before = layout(old)
    open_store(old).close()
    open_store(tmp_path / "new.db").close()
    after = layout(old)
    assert after == layout(tmp_path / "new.db") and version(old) == str(schema.SCHEMA_VERSION)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("team", "coder"), [("expert", "expert"), ("llm", "llm"), ("expert+planner=llm,coder=llm", "llm")]
)
def test_old_outcomes_are_told_whose_coder_they_are_of(old: Path, team: str, coder: str) -> None:
    with sqlite3.connect(old) as connection:
        named = f'"team":"{team}"'
        connection.execute('UPDATE runs SET spec = replace(spec, \'"team":"expert"\', ?)', (named,))
        orphan = "INSERT INTO outcomes (run_id, payload) SELECT 'gone', payload FROM outcomes"
        connection.execute(orphan)
        connection.execute("INSERT INTO outcomes (run_id, payload) VALUES (?, 'no record')", (RUN,))
    connection.close()
    open_store(old).close()
    with sqlite3.connect(old) as connection:
        connection.execute("DELETE FROM outcomes WHERE payload = 'no record'")  # left as it was
        assert connection.total_changes == 1
    connection.close()
    known = open_store(old).iter_outcomes()
    assert [outcome.coder for _, outcome in known] == [coder, "expert"]


def test_a_newer_version_is_refused_and_left_as_it_is(old: Path) -> None:
    newer = str(schema.SCHEMA_VERSION + 1)
    with sqlite3.connect(old) as connection:
        connection.execute("UPDATE meta SET value = ?", (newer,))
    connection.close()
    before = layout(old)
    with pytest.raises(StoreError, match=f"version {newer}.*reads version 4 and older") as caught:
        open_store(old)
    assert "\n" not in str(caught.value)
    assert (layout(old), version(old)) == (before, newer)


def test_many_may_upgrade_one_file_at_once(old: Path) -> None:
    failures: list[BaseException] = []

    def upgrade() -> None:
        try:
            open_store(old).add_finding(make_finding())
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=upgrade) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and list(open_store(old).iter_findings()) == [make_finding()]


HALFWAY = """
import os, sys
import sqlalchemy as sa
from kernelwright.store import schema
from kernelwright.store.sqlstore import open_store
sa.event.listen(schema.plans, "before_create", lambda *_args, **_options: os._exit(9))
open_store(sys.argv[1])
"""


def test_an_upgrade_that_is_killed_halfway_is_as_if_it_had_not_begun(old: Path) -> None:
    before = layout(old)
    killed = subprocess.run([sys.executable, "-c", HALFWAY, str(old)], check=False)
    assert killed.returncode == 9
    assert (layout(old), version(old)) == (before, "1")
    assert open_store(old).last_plan_id() == 0
