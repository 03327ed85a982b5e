"""A store of an older version is brought up to date when it is opened, and loses nothing."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from kernelwright.core.errors import StoreError
from kernelwright.core.run import RunState
from kernelwright.core.tally import histograms_of, tallies_of
from kernelwright.store import schema, versions
from kernelwright.store.sqlstore import open_store
from kernelwright.store.versions import StoreOlder
from kernelwright.testing.store_contract import make_finding, make_model_call, make_plan

RUN = "1qf9h31pz2e"
VERSION_1 = Path(__file__).with_name("version_1.sql")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file as version 1 wrote it."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(VERSION_1.read_text(encoding="utf-8"))
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


def test_the_revisions_come_to_what_a_new_store_is_made_of(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'revised.db'}")
    with engine.begin() as connection:
        versions.upgrade(connection, 0)
    engine.dispose()
    open_store(tmp_path / "new.db").close()
    assert layout(tmp_path / "revised.db") == layout(tmp_path / "new.db")
    assert version(tmp_path / "revised.db") == str(schema.SCHEMA_VERSION)


def test_every_version_has_its_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(versions.MIGRATIONS))
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert revisions[::-1] == [f"{n:04}" for n in range(1, schema.SCHEMA_VERSION + 1)]


def test_a_store_of_this_version_is_opened_without_alembic(tmp_path: Path) -> None:
    open_store(tmp_path / "s.db").close()
    code = "import sys; from kernelwright.store.sqlstore import open_store; open_store(sys.argv[1])"
    code += "; sys.exit('alembic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s.db")], check=True)


def test_an_older_store_is_not_read_as_it_is_and_left_as_it_is(old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(StoreOlder, match=r"schema version 1.*upgrades it"):
        open_store(old, read_only=True)
    assert old.read_bytes() == before


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
    assert all(columns <= after[name] for name, columns in before.items())


def test_an_upgraded_file_is_found_by_keys_as_a_new_one_is(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("INSERT INTO outcomes (run_id, payload) SELECT run_id, payload FROM outcomes")
        connection.execute("INSERT INTO outcomes (run_id, payload) VALUES (?, 'no record')", (RUN,))
    store = open_store(old)
    spec = store.get_run(RUN).spec
    assert [record.run_id for record in store.alike_runs(spec)] == [RUN]
    assert [(use.machine, use.runs) for use in store.machines()] == [(spec.machine, 1)]
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("DELETE FROM outcomes WHERE payload = 'no record'")
    known = [outcome for _, outcome in store.iter_outcomes()]
    assert store.tallies() == tallies_of(known) and store.histograms() == histograms_of(known)
    assert store.count_tasks() == 1


def test_plans_of_an_older_version_are_found_by_signature(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = open_store(path)
    store.add_plan(make_plan())
    store.close()
    as_version_4(path)
    store = open_store(path)
    assert list(store.iter_plans_of("cpu/cpp", list(store.plan_signatures("cpu/cpp")))) == [make_plan()]


def as_version_4(path: Path) -> None:
    """Take out of a store what version 5 added."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for index in ("runs_by_question", "runs_by_machine", "runs_by_experiment", "plans_by_signature"):
            connection.execute(f"DROP INDEX {index}")
        connection.execute("DROP INDEX ix_outcomes_run_id")
        connection.execute("DROP TABLE tallies")
        for column in ("question", "machine"):
            connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
        for column in ("target", "signature", "speedup"):
            connection.execute(f"ALTER TABLE plans DROP COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = '0004'")
        connection.execute("UPDATE meta SET value = '4' WHERE key = 'schema_version'")


@pytest.mark.parametrize(
    ("team", "coder"), [("expert", "expert"), ("llm", "llm"), ("expert+planner=llm,coder=llm", "llm")]
)
def test_old_outcomes_are_told_whose_coder_they_are_of(old: Path, team: str, coder: str) -> None:
    with closing(sqlite3.connect(old)) as connection, connection:
        named = f'"team":"{team}"'
        connection.execute('UPDATE runs SET spec = replace(spec, \'"team":"expert"\', ?)', (named,))
        orphan = "INSERT INTO outcomes (run_id, payload) SELECT 'gone', payload FROM outcomes"
        connection.execute(orphan)
        connection.execute("INSERT INTO outcomes (run_id, payload) VALUES (?, 'no record')", (RUN,))
    open_store(old).close()
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("DELETE FROM outcomes WHERE payload = 'no record'")  # left as it was
        assert connection.total_changes == 1
    known = open_store(old).iter_outcomes()
    assert [outcome.coder for _, outcome in known] == [coder, "expert"]


def test_a_newer_version_is_refused_and_left_as_it_is(old: Path) -> None:
    newer = str(schema.SCHEMA_VERSION + 1)
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE meta SET value = ?", (newer,))
    before, content = layout(old), old.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=f"version {newer}.*reads version 5 and older") as caught:
            open_store(old, read_only=read_only)
        assert "\n" not in str(caught.value)
    assert old.read_bytes() == content and (layout(old), version(old)) == (before, newer)


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
from kernelwright.store.sqlstore import open_store

@sa.event.listens_for(sa.Engine, "before_cursor_execute")
def kill(connection, cursor, statement, *_rest):
    if "CREATE TABLE plans" in statement:
        os._exit(9)

open_store(sys.argv[1])
"""


def test_an_upgrade_that_is_killed_halfway_is_as_if_it_had_not_begun(old: Path) -> None:
    before = layout(old)
    killed = subprocess.run([sys.executable, "-c", HALFWAY, str(old)], check=False)
    assert killed.returncode == 9
    assert (layout(old), version(old)) == (before, "1")
    assert open_store(old).last_plan_id() == 0
