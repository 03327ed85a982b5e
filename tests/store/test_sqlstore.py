"""The SQL store keeps the contract on every database at hand, and fails in one clear line."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from kernelwright.core.errors import StoreError
from kernelwright.core.events import CandidateWritten
from kernelwright.store import schema
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import SqlStore, open_store
from kernelwright.testing.store_contract import StoreContract, make_candidate, make_finding, make_spec

POSTGRES = os.environ.get("KERNELWRIGHT_TEST_POSTGRES")
"""URL of an empty database that the tests may fill and clear."""


class TestSqliteFile(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        opened = open_store(tmp_path / "deep" / "store.db")
        yield opened
        opened.close()


class TestInMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        opened = open_store("sqlite://")
        yield opened
        opened.close()

    def test_threads_may_write_one_run_at_once(self, store: Store, run_id: str) -> None:
        pytest.skip("one connection serves one thread")


@pytest.mark.skipif(POSTGRES is None, reason="KERNELWRIGHT_TEST_POSTGRES names no database")
class TestPostgres(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        assert POSTGRES is not None
        engine = sa.create_engine(POSTGRES)
        schema.metadata.drop_all(engine)
        engine.dispose()
        opened = open_store(POSTGRES)
        yield opened
        opened.close()


def test_reopened_store_holds_everything(tmp_path: Path) -> None:
    first = open_store(tmp_path / "s.db")
    run_id = first.create_run(make_spec())
    first.add_candidate(run_id, make_candidate())
    first.append_event(run_id, CandidateWritten(step=1, candidate=make_candidate().id))
    first.add_finding(make_finding())
    first.close()
    second = open_store(str(tmp_path / "s.db"))
    assert list(second.iter_candidates(run_id)) == [make_candidate()]
    assert [item.seq for item in second.iter_events(run_id)] == [1]
    assert list(second.iter_findings()) == [make_finding()]


@pytest.mark.parametrize("place", ["file/inside/s.db", "folder"])
def test_unwritable_place_is_one_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"cannot open the store .*") as caught:
        open_store(tmp_path / place)
    assert "\n" not in str(caught.value) and place in str(caught.value)


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look at" * 20, encoding="utf-8")
    with pytest.raises(StoreError, match="not a database"):
        open_store(path)


def test_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE runs (distance REAL)")
    with pytest.raises(StoreError, match="something else"):
        open_store(tmp_path / "other.db")


def test_other_schema_version_is_refused_naming_both(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99'")
    with pytest.raises(StoreError, match=r"version 99.*reads version 4.*name another store"):
        open_store(path)


@pytest.mark.parametrize("url", ["nosuchdb://x/y", "postgresql+nosuchdriver://u:secret@h/d"])
def test_unreachable_url_is_a_store_error_without_the_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_many_may_create_one_store_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def create() -> None:
        try:
            open_store(tmp_path / "s.db").create_run(make_spec())
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(list(open_store(tmp_path / "s.db").iter_runs())) == 8


def test_evaluation_is_looked_up_by_index(tmp_path: Path) -> None:
    opened = open_store(tmp_path / "s.db")
    assert isinstance(opened, SqlStore)
    opened.close()
    query = "EXPLAIN QUERY PLAN SELECT * FROM events WHERE run_id='r' AND kind IN ('a','b') AND candidate='c'"
    with sqlite3.connect(tmp_path / "s.db") as connection:
        plan = connection.execute(query).fetchall()
    assert "events_by_candidate" in plan[0][-1]
