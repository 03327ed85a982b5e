"""The store on a PostgreSQL server: the whole contract, a server that restarts, and passwords."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kernelwright.core.errors import StoreError
from kernelwright.core.events import CandidateEvaluated, CandidateWritten, Event
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.task import Task
from kernelwright.methods.kernelskill import KERNELSKILL, KernelSkillPolicy
from kernelwright.runs.loop import Crew, Tools, start_run
from kernelwright.store import engine as store_engine
from kernelwright.store import schema, versions
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import SqlStore, open_store
from kernelwright.store.versions import StoreMissing
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_prepare
from kernelwright.testing.store_contract import StoreContract, make_model_call, make_spec

PASSWORD = "s3cr3t-of-the-test"


class TestPostgres(StoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[Store]:
        opened = open_store(database)
        yield opened
        opened.close()

    @pytest.fixture
    def second(self, store: Store, database: str) -> Iterator[Store]:
        opened = open_store(database)
        yield opened
        opened.close()

    @pytest.fixture
    def reader(self, store: Store, database: str) -> Iterator[Store]:
        opened = open_store(database, read_only=True)
        yield opened
        opened.close()


def test_an_empty_database_is_no_store_to_read(database: str) -> None:
    with pytest.raises(StoreMissing, match=r"no store in postgresql.*kernelwright optimize"):
        open_store(database, read_only=True)


def test_a_database_of_something_else_is_refused_untouched(database: str) -> None:
    engine = sa.create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE walks (distance float)")
    with pytest.raises(StoreError, match="something else") as caught:
        open_store(database)
    assert sa.inspect(engine).get_table_names() == ["walks"] and PASSWORD not in str(caught.value)
    engine.dispose()


def test_an_older_store_is_upgraded_to_what_a_new_one_is(database: str, another_database: str) -> None:
    older = sa.create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with older.begin() as connection:
        versions.upgrade(connection, 0)
    newer = open_store(another_database)
    assert isinstance(newer, SqlStore)
    for table in schema.metadata.tables:
        columns = [sa.inspect(engine).get_columns(table) for engine in (older, newer._engine)]
        names = [[(c["name"], str(c["type"]), c["nullable"]) for c in found] for found in columns]
        assert names[0] == names[1], table
    older.dispose()
    newer.close()
    upgraded = open_store(database)
    upgraded.create_run(make_spec())
    upgraded.close()


def tools(store: Store, referee: FakeReferee, **more: Any) -> Tools:
    return Tools(
        store=store,
        referee=referee,
        assemble=lambda meter, tape: Crew(ScriptedTeam(["a"], ["x", "y"]).team()),
        policy=KernelSkillPolicy(rounds=4),
        pipelines=KERNELSKILL.pipelines,
        cache_dir=Path("unused"),
        prepare=fake_prepare,
        **more,
    )


VERDICTS: dict[str, Any] = {"a": 1.0, "a>x": 1.3, "a>y": 1.6, "a>y>x": 1.7, "a>y>y": 1.2}


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts_in_the_middle_of_a_run_costs_nothing(
    server: Any, database: str, mode: str
) -> None:
    def restart(event: Event) -> None:
        if isinstance(event, CandidateEvaluated) and not restarts:
            server.stop(mode)
            restarts.append(threading.Timer(1.0, server.start))
            restarts[0].start()

    restarts: list[threading.Timer] = []
    whole, store = open_store("sqlite://"), open_store(database)
    spec = RunSpec(task=Task(name="t", source="reference"), recipe="kernelskill")
    expected = start_run(spec, tools(whole, FakeReferee(VERDICTS)))
    referee = FakeReferee(VERDICTS)
    outcome = start_run(spec, tools(store, referee, on_event=restart))
    restarts[0].join()
    assert outcome.winner == expected.winner and store.get_run(outcome.run_id).state is RunState.FINISHED
    kinds = [
        [(item.seq, item.event.kind) for item in kept.iter_events(run_id)]
        for kept, run_id in ((whole, expected.run_id), (store, outcome.run_id))
    ]
    assert kinds[0] == kinds[1] and len(referee.asked) == len(set(referee.asked))
    assert len(list(store.iter_outcomes())) == len(list(whole.iter_outcomes()))
    store.close()


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_doubled(
    database: str, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(database)
    run_id = store.create_run(make_spec())
    answers = iter([True])

    def commit(connection: sa.Connection) -> None:
        if next(answers, False):
            if is_committed:
                original(connection)
            pid = connection.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
            end_connection(database, pid)
            if is_committed:
                connection.exec_driver_sql("SELECT 1")
        original(connection)

    original = sa.Connection.commit
    monkeypatch.setattr(sa.Connection, "commit", commit)
    assert store.append_event(run_id, CandidateWritten(step=1, candidate="c")) == 1
    monkeypatch.undo()
    store.add_model_call(run_id, make_model_call())
    assert [item.seq for item in store.iter_events(run_id)] == [1]
    store.close()


def end_connection(database: str, pid: int) -> None:
    """Have the server end a connection, and wait until it is ended."""
    engine = sa.create_engine(
        database.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 10000)")
    engine.dispose()
    time.sleep(0.1)


def test_a_server_that_stays_away_is_an_error_without_the_password(
    server: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_engine, "SERVER_WAIT_S", 0.0)
    store = open_store(database)
    server.stop("fast")
    try:
        for work in (store.iter_runs, lambda: store.create_run(make_spec()), lambda: open_store(database)):
            with pytest.raises(StoreError, match="the store postgresql") as caught:
                work()
            assert PASSWORD not in str(caught.value) and "\n" not in str(caught.value)
    finally:
        server.start()
    assert list(store.iter_runs()) == []
    store.close()


def test_a_wrong_password_is_said_at_once(database: str) -> None:
    with pytest.raises(StoreError, match="authentication") as caught:
        open_store(database.replace(PASSWORD, "wr0ng-password"))
    assert "wr0ng-password" not in str(caught.value)
