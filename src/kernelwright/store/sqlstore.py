"""The store on any database that SQLAlchemy reaches: SQLite by default, PostgreSQL for a team."""

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.engine import Connection, Engine, Row

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import StoreError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import CandidateEvaluated, Event, RunFinished
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.model_call import ModelCall
from kernelwright.core.run import Outcome, RunSpec, RunState
from kernelwright.store.base import RunRecord, Store, StoredEvent
from kernelwright.store.engine import open_database
from kernelwright.store.ids import new_run_id
from kernelwright.store.lease import utc_now
from kernelwright.store.schema import candidates, events, model_calls, run_candidates, runs
from kernelwright.store.sqllearned import SqlLearned, insert_outcome, insert_plan, lock_ledger
from kernelwright.store.sqlleases import SqlLeases, to_text
from kernelwright.store.sqlrecords import exists, insert

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_EVALUATING = ("candidate_evaluated", "run_finished")


def open_store(where: Path | str, *, read_only: bool = False) -> Store:
    """Open the store, creating it when it is not there and upgrading an older one.

    Args:
        where: path of an SQLite file, or an SQLAlchemy URL such as ``postgresql://USER@HOST/DATABASE``;
            ``sqlite://`` keeps everything in memory.
        read_only: Only read: it works while others write and where nobody may write, and nothing is created
            or upgraded.

    Raises:
        StoreMissing: it is to be read and not there.
        StoreOlder: it is to be read and of an older version.
        StoreError: it cannot be created or written, is something else, or holds a newer schema version; it
            is left as it was.
    """
    engine, name = open_database(where, read_only=read_only)
    return SqlStore(engine, name, read_only=read_only)


class SqlStore(SqlLearned, SqlLeases, Store):
    """See Store."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        clock: Callable[[], datetime] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """Use an opened database; ``name`` is for messages, ``clock`` returns UTC times."""
        super().__init__(engine, name, clock or utc_now, read_only=read_only)
        self._rng = random.SystemRandom()

    def create_run(self, spec: RunSpec) -> str:
        now = self._clock()
        run_id = new_run_id(now, self._rng)
        row = {
            "run_id": run_id,
            "experiment": spec.experiment,
            "state": RunState.RUNNING.value,
            "created_at": to_text(now),
            "updated_at": to_text(now),
            "spec": spec.model_dump_json(),
        }
        self._write(lambda connection: connection.execute(runs.insert().values(row)))
        return run_id

    def get_run(self, run_id: str) -> RunRecord:
        found = self._read(sa.select(runs).where(runs.c.run_id == run_id))
        if not found:
            raise self._unknown_run(run_id)
        return self._run_record(found[0])

    def find_run(self, prefix: str) -> RunRecord | None:
        query = sa.select(runs).where(runs.c.run_id.startswith(prefix, autoescape=True))
        found = self._read(query.order_by(runs.c.run_id).limit(6))
        exact = [row for row in found if row.run_id == prefix] or found
        if len(exact) > 1:
            raise UserError(f"{prefix!r} begins several run ids: {', '.join(row.run_id for row in exact)}")
        return self._run_record(exact[0]) if exact else None

    def iter_runs(self, experiment: str | None = None) -> Iterator[RunRecord]:
        query = sa.select(runs).order_by(runs.c.created_at, runs.c.run_id)
        if experiment is not None:
            query = query.where(runs.c.experiment == experiment)
        return map(self._run_record, self._read(query))

    def set_state(self, run_id: str, state: RunState, failure: str | None = None) -> None:
        self._write(lambda connection: self._touch(connection, run_id, state=state.value, failure=failure))

    def append_event(self, run_id: str, event: Event) -> int:
        return self._write(lambda connection: self._append(connection, run_id, event))

    def close_run(
        self, run_id: str, finished: RunFinished, outcomes: Sequence[Outcome], plan: ArchivedPlan | None
    ) -> None:
        is_closing = sa.and_(events.c.run_id == run_id, events.c.kind == finished.kind)

        def close(connection: Connection) -> None:
            self._touch(connection, run_id)
            if exists(connection, is_closing):
                return
            self._append(connection, run_id, finished)
            lock_ledger(connection)
            for outcome in outcomes:
                insert_outcome(connection, outcome)
            if plan is not None:
                insert_plan(connection, plan)

        self._write(close)

    def _append(self, connection: Connection, run_id: str, event: Event) -> int:
        # Locks the run's row first, so that two writers never take the same number.
        self._touch(connection, run_id)
        last = sa.select(sa.func.max(events.c.seq)).where(events.c.run_id == run_id)
        seq = (connection.execute(last).scalar() or 0) + 1
        row = {
            "run_id": run_id,
            "seq": seq,
            "at": to_text(self._clock()),
            "kind": event.kind,
            "candidate": _candidate_of(event),
            "payload": event.model_dump_json(),
        }
        connection.execute(events.insert().values(row))
        return seq

    def iter_events(self, run_id: str, *, after: int = 0) -> Iterator[StoredEvent]:
        query = sa.select(events).where(events.c.run_id == run_id, events.c.seq > after)
        return map(self._stored_event, self._read(query.order_by(events.c.seq)))

    def add_candidate(self, run_id: str, candidate: Candidate) -> None:
        key = candidate.id

        def add(connection: Connection) -> None:
            self._touch(connection, run_id)
            known = connection.execute(_source_query(key)).scalar()
            if known is None:
                connection.execute(candidates.insert().values(candidate_id=key, source=candidate.source))
            if not exists(connection, _in_run(run_id, key)):
                # Another run may have written the same program in other words: then this one keeps its own.
                own = "" if known in (None, candidate.source) else candidate.source
                payload = candidate.model_copy(update={"source": own}).model_dump_json()
                row = {"run_id": run_id, "candidate_id": key, "payload": payload}
                connection.execute(run_candidates.insert().values(row))

        self._write(add)

    def get_candidate(self, candidate_id: str, run_id: str | None = None) -> Candidate:
        query = _candidate_query().where(run_candidates.c.candidate_id == candidate_id)
        if run_id is not None:
            query = query.where(run_candidates.c.run_id == run_id)
        found = self._read(query.limit(1))
        if not found:
            where = self._name if run_id is None else f"run {run_id}"
            raise StoreError(f"no candidate {candidate_id!r} in {where}")
        return self._candidate(found[0])

    def iter_candidates(self, run_id: str) -> Iterator[Candidate]:
        query = _candidate_query().where(run_candidates.c.run_id == run_id)
        return map(self._candidate, self._read(query))

    def find_evaluation(self, run_id: str, candidate_id: str, *, is_final: bool = False) -> Evaluation | None:
        query = (
            sa.select(events)
            .where(events.c.run_id == run_id, events.c.kind.in_(_EVALUATING))
            .where(events.c.candidate == candidate_id)
            .order_by(events.c.seq.desc())
        )
        for row in self._read(query):
            event = self._stored_event(row).event
            if isinstance(event, CandidateEvaluated | RunFinished):
                evaluation = event.evaluation
                if evaluation is not None and evaluation.is_final == is_final:
                    return evaluation
        return None

    def add_model_call(self, run_id: str, call: ModelCall) -> int:
        row = {"run_id": run_id, "payload": call.model_dump_json()}

        def add(connection: Connection) -> int:
            self._touch(connection, run_id)
            return insert(connection, model_calls, row)

        return self._write(add)

    def iter_model_calls(self, run_id: str) -> Iterator[ModelCall]:
        query = sa.select(model_calls.c.payload).where(model_calls.c.run_id == run_id)
        rows = self._read(query.order_by(model_calls.c.call_id))
        return (self._parse(ModelCall.model_validate_json, row.payload) for row in rows)

    def _touch(self, connection: Connection, run_id: str, **values: str | None) -> None:
        """Set the run's columns and the time of its last change, and lock its row until the transaction ends.

        Raises:
            LeaseLost: another process has the run's lease.
        """
        change = runs.update().where(runs.c.run_id == run_id)
        done = connection.execute(change.values(updated_at=to_text(self._clock()), **values))
        if done.rowcount == 0:
            raise self._unknown_run(run_id)
        self._require_lease(connection, run_id)

    def _run_record(self, row: Row[Any]) -> RunRecord:
        return RunRecord(
            run_id=row.run_id,
            spec=self._parse(RunSpec.model_validate_json, row.spec),
            state=RunState(row.state),
            created_at=datetime.fromisoformat(row.created_at),
            updated_at=datetime.fromisoformat(row.updated_at),
            failure=row.failure,
        )

    def _stored_event(self, row: Row[Any]) -> StoredEvent:
        event = self._parse(_EVENT.validate_json, row.payload)
        return StoredEvent(seq=row.seq, at=datetime.fromisoformat(row.at), event=event)

    def _candidate(self, row: Row[Any]) -> Candidate:
        found = self._parse(Candidate.model_validate_json, row.payload)
        if not found.source:
            found = found.model_copy(update={"source": row.source})
        # An older version made ids of other text; what it stored is still found under them.
        return found if found.id == row.candidate_id else found.known_as(row.candidate_id)


def _candidate_of(event: Event) -> str | None:
    """Return the candidate the event is about, for the index."""
    if isinstance(event, RunFinished):
        return event.evaluation.candidate_id if event.evaluation else event.winner
    return getattr(event, "candidate", None)


def _candidate_query() -> sa.Select[Any]:
    joined = run_candidates.join(candidates, run_candidates.c.candidate_id == candidates.c.candidate_id)
    columns = run_candidates.c.candidate_id, run_candidates.c.payload, candidates.c.source
    return sa.select(*columns).select_from(joined).order_by(run_candidates.c.position)


def _source_query(candidate_id: str) -> sa.Select[Any]:
    return sa.select(candidates.c.source).where(candidates.c.candidate_id == candidate_id)


def _in_run(run_id: str, candidate_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(run_candidates.c.run_id == run_id, run_candidates.c.candidate_id == candidate_id)
