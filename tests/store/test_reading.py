"""Reading takes no lock, writes nothing, works where nobody may write, and never touches what is not ours."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import alembic.command  # noqa: F401  while all that it imports may be read: root's Python may be root's alone
import pytest
import sqlalchemy as sa

from kernelwright.core.errors import StoreError
from kernelwright.core.events import CandidateWritten
from kernelwright.store import engine
from kernelwright.store.reading import open_for_reading
from kernelwright.store.sqlstore import open_store
from kernelwright.store.versions import StoreMissing
from kernelwright.testing.store_contract import make_outcome, make_spec

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Nobody may write into the folder, nor its files; root becomes somebody else meanwhile."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def filled(path: Path) -> str:
    store = open_store(path)
    run_id = store.create_run(make_spec())
    store.append_event(run_id, CandidateWritten(step=1, candidate="c"))
    store.add_outcome(make_outcome())
    store.close()
    return run_id


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_read_only_store_in_a_read_only_folder_is_read(folder: Path) -> None:
    run_id = filled(folder / "s.db")
    before = content(folder)
    with without_rights(folder):
        store = open_store(folder / "s.db", read_only=True)
        assert [record.run_id for record in store.iter_runs()] == [run_id]
        assert [item.seq for item in store.iter_events(run_id)] == [1]
        assert store.lease_of(run_id) is None
        store.close()
        with pytest.raises(StoreError, match="read-only; name another"):
            open_store(folder / "s.db")
    assert content(folder) == before


def test_an_older_store_in_a_read_only_folder_is_read_from_an_upgraded_copy(folder: Path) -> None:
    connection = sqlite3.connect(folder / "old.db")
    connection.executescript(Path(__file__).with_name("version_1.sql").read_text(encoding="utf-8"))
    connection.close()
    before = content(folder)
    with without_rights(folder):
        store = open_for_reading(str(folder / "old.db"), must_exist=True)
        (record,) = store.newest_runs()
        assert record.spec.task.name == "double" and list(store.alike_runs(record.spec)) == [record]
        assert len(store.tallies()) == 1
        with pytest.raises(StoreError, match="opened for reading"):
            store.create_run(make_spec())
        store.close()
    assert content(folder) == before


def test_what_a_killed_writer_left_is_read_in_a_read_only_folder_too(folder: Path) -> None:
    filled(folder / "s.db")
    pid = os.fork()
    if pid == 0:
        writer = open_store(folder / "s.db")
        writer.create_run(make_spec())
        os._exit(9)  # before anything closes the store
    os.waitpid(pid, 0)
    assert (folder / "s.db-wal").stat().st_size
    with without_rights(folder):
        store = open_store(folder / "s.db", read_only=True)
        assert len(list(store.iter_runs())) == 2
        store.close()
    (folder / "s.db-shm").unlink()
    with without_rights(folder), pytest.raises(StoreError, match="cannot open the store"):
        open_store(folder / "s.db", read_only=True)


def test_reading_waits_for_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0)
    run_id = filled(tmp_path / "s.db")
    writer = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    store = open_store(tmp_path / "s.db", read_only=True)
    assert [record.run_id for record in store.iter_runs()] == [run_id]
    assert [skill.skill for _, skill in store.iter_outcomes()] == ["skill-0"]
    writer.execute("ROLLBACK")
    writer.close()


def test_reading_begins_no_write_transaction(tmp_path: Path) -> None:
    filled(tmp_path / "s.db")
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        said.append(statement.split()[0].upper() + " " + statement.split()[-1].upper())

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        list(open_store(tmp_path / "s.db", read_only=True).iter_runs())
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert said and {words.split()[0] for words in said} <= {"BEGIN", "SELECT", "PRAGMA"}
    assert "BEGIN IMMEDIATE" not in said


def test_a_store_that_is_read_cannot_be_written(tmp_path: Path) -> None:
    filled(tmp_path / "s.db")
    with pytest.raises(StoreError, match="opened for reading"):
        open_store(tmp_path / "s.db", read_only=True).create_run(make_spec())


def test_a_missing_store_is_one_line_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match=r"no store at .*deep/s.db; kernelwright optimize") as caught:
        open_store(tmp_path / "deep" / "s.db", read_only=True)
    assert "\n" not in str(caught.value) and not (tmp_path / "deep").exists()


FOREIGN = {
    "equal table names": "CREATE TABLE runs (distance REAL); INSERT INTO runs VALUES (5.0)",
    "other table names": "CREATE TABLE walks (distance REAL)",
    "a table meta": "CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('schema_version', '3')",
}


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("tables", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_something_else_is_refused_untouched(
    tmp_path: Path, tables: str, journal: str, read_only: bool
) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute(f"PRAGMA journal_mode={journal}")
    connection.executescript(tables)
    connection.close()
    before = content(tmp_path)
    with pytest.raises(StoreError, match="something else, left as it is; name another") as caught:
        open_store(tmp_path / "other.db", read_only=read_only)
    assert "\n" not in str(caught.value) and content(tmp_path) == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    assert list(open_store(tmp_path / "s.db").iter_runs()) == []
