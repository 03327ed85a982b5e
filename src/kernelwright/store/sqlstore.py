"""The store on any database that SQLAlchemy reaches: SQLite by default, PostgreSQL for a team."""

import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from kernelwright.store.base import MachineUse, RunRecord, Store, StoredEvent
from kernelwright.store.engine import open_database
from kernelwright.store.ids import new_run_id
from kernelwright.store.keys import machine_key, question_of
from kernelwright.store.lease import utc_now
from kernelwright.store.schema import candidates, events, leases, model_calls, run_candidates, runs
from kernelwright.store.sqllearned import SqlLearned, insert_outcomes, insert_plan, lock_ledger
from kernelwright.store.sqlleases import SqlLeases, to_text
from kernelwright.store.sqlrecords import batched, exists, insert

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_log = logging.getLogger(__name__)
_EVALUATING = ("candidate_evaluated", "run_finished")
_PAGE = 50
"""Runs that are read at a time."""


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
    _log.debug("opened the store", extra={"fields": {"store": name, "read_only": read_only}})
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
            "question": question_of(spec),
            "machine": machine_key(spec.machine),
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

    def newest_runs(self, limit: int | None = None, *, experiment: str | None = None) -> Sequence[RunRecord]:
        query = _newest(runs).limit(limit)
        if experiment is not None:
            query = query.where(runs.c.experiment == experiment)
        return [self._run_record(row) for row in self._read(query)]

    def alike_runs(self, spec: RunSpec) -> Iterator[RunRecord]:
        found = self._read(_newest(runs.c.run_id).where(runs.c.question == question_of(spec)))
        for some in batched([row.run_id for row in found], _PAGE):
            rows = self._read(sa.select(runs).where(runs.c.run_id.in_(some)))
            known = {row.run_id: row for row in rows}
            yield from (self._run_record(known[run_id]) for run_id in some if run_id in known)

    def run_marks(self, limit: int) -> Sequence[str]:
        query = _newest(runs.c.run_id, runs.c.state, runs.c.updated_at).limit(limit)
        found = self._read(query)
        live = self.leases_of([row.run_id for row in found])
        return [f"{row.run_id} {row.state} {row.updated_at} {row.run_id in live}" for row in found]

    def machines(self) -> Sequence[MachineUse]:
        counted = sa.select(sa.func.count().label("runs"), sa.func.max(runs.c.run_id).label("run_id"))
        found = self._read(counted.add_columns(runs.c.machine).group_by(runs.c.machine))
        held = self._read(sa.select(leases.c.run_id).where(leases.c.owner.is_not(None)))
        live = list(self.leases_of([row.run_id for row in held]))
        machine_of = {
            row.run_id: row.machine
            for some in batched(live)
            for row in self._read(sa.select(runs.c.run_id, runs.c.machine).where(runs.c.run_id.in_(some)))
        }
        at_work, devices = Counter(machine_of.values()), self._devices(live)
        known = {row.machine: self.get_run(row.run_id).spec.machine for row in found}
        uses = [
            MachineUse(
                machine=known[row.machine],
                runs=row.runs,
                at_work=at_work[row.machine],
                devices=tuple(sorted({devices[r] for r in devices if machine_of[r] == row.machine})),
            )
            for row in found
        ]
        return sorted(uses, key=lambda use: -use.runs)

    def _devices(self, run_ids: Collection[str]) -> dict[str, str]:
        """Return the device of a fleet that each of some runs had its last verdict from, if there is one."""
        last = self.last_events(run_ids, "candidate_evaluated")
        return {
            run_id: event.evaluation.device
            for run_id, event in last.items()
            if isinstance(event, CandidateEvaluated) and event.evaluation.device is not None
        }

    def set_state(self, run_id: str, state: RunState, failure: str | None = None) -> None:
        self._write(lambda connection: self._touch(connection, run_id, state=state.value, failure=failure))

    def append_event(self, run_id: str, event: Event) -> int:
        return self.append_events(run_id, [event])

    def append_events(self, run_id: str, added: Sequence[Event]) -> int:
        return self._write(lambda connection: self._append(connection, run_id, added))

    def close_run(
        self, run_id: str, finished: RunFinished, outcomes: Sequence[Outcome], plan: ArchivedPlan | None
    ) -> None:
        is_closing = sa.and_(events.c.run_id == run_id, events.c.kind == finished.kind)

        def close(connection: Connection) -> None:
            self._touch(connection, run_id)
            if exists(connection, is_closing):
                return
            self._append(connection, run_id, [finished])
            lock_ledger(connection)
            insert_outcomes(connection, outcomes)
            if plan is not None:
                insert_plan(connection, plan)

        self._write(close)

    def _append(self, connection: Connection, run_id: str, added: Sequence[Event]) -> int:
        # Locks the run's row first, so that two writers never take the same number.
        self._touch(connection, run_id)
        last = sa.select(sa.func.max(events.c.seq)).where(events.c.run_id == run_id)
        seq = connection.execute(last).scalar() or 0
        at = to_text(self._clock())
        rows = [
            {
                "run_id": run_id,
                "seq": number,
                "at": at,
                "kind": event.kind,
                "candidate": _candidate_of(event),
                "payload": event.model_dump_json(),
            }
            for number, event in enumerate(added, seq + 1)
        ]
        if rows:
            connection.execute(events.insert(), rows)
        return seq + len(rows)

    def iter_events(
        self, run_id: str, *, after: int = 0, kinds: Collection[str] = ()
    ) -> Iterator[StoredEvent]:
        query = sa.select(events).where(events.c.run_id == run_id, events.c.seq > after)
        if kinds:
            query = query.where(events.c.kind.in_(list(kinds)))
        return map(self._stored_event, self._read(query.order_by(events.c.seq)))

    def last_events(self, run_ids: Collection[str], kind: str) -> Mapping[str, Event]:
        found: dict[str, Event] = {}
        for some in batched(run_ids):
            which = sa.and_(events.c.run_id.in_(some), events.c.kind == kind)
            newest = sa.select(events.c.run_id, sa.func.max(events.c.seq)).where(which)
            newest = newest.group_by(events.c.run_id)
            rows = self._read(sa.select(events).where(sa.tuple_(events.c.run_id, events.c.seq).in_(newest)))
            found |= {row.run_id: self._stored_event(row).event for row in rows}
        return found

    def add_candidate(self, run_id: str, candidate: Candidate) -> None:
        self.add_candidates(run_id, [candidate])

    def add_candidates(self, run_id: str, added: Sequence[Candidate]) -> None:
        wanted: dict[str, Candidate] = {}
        for candidate in added:
            wanted.setdefault(candidate.id, candidate)

        def add(connection: Connection) -> None:
            self._touch(connection, run_id)
            for some in batched(wanted):
                _add_candidates(connection, run_id, {key: wanted[key] for key in some})

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

    def replace_model_call(self, run_id: str, call: ModelCall) -> None:
        named = sa.select(model_calls.c.call_id, model_calls.c.payload).where(model_calls.c.run_id == run_id)

        def replace(connection: Connection) -> None:
            self._touch(connection, run_id)
            for row in connection.execute(named.order_by(model_calls.c.call_id.desc())):
                if self._parse(ModelCall.model_validate_json, row.payload).key == call.key:
                    place = model_calls.update().where(model_calls.c.call_id == row.call_id)
                    connection.execute(place.values(payload=call.model_dump_json()))
                    return

        self._write(replace)

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


def _add_candidates(connection: Connection, run_id: str, added: Mapping[str, Candidate]) -> None:
    """Insert what is not there; the first record of an id in a run stays."""
    query = sa.select(candidates).where(candidates.c.candidate_id.in_(list(added)))
    known = {row.candidate_id: row.source for row in connection.execute(query)}
    sources = [{"candidate_id": key, "source": c.source} for key, c in added.items() if key not in known]
    if sources:
        connection.execute(candidates.insert(), sources)
    in_run = sa.and_(run_candidates.c.run_id == run_id, run_candidates.c.candidate_id.in_(list(added)))
    there = {row[0] for row in connection.execute(sa.select(run_candidates.c.candidate_id).where(in_run))}
    rows = []
    for key, candidate in added.items():
        # Another run may have written the same program in other words: then this one keeps its own.
        own = "" if known.get(key) in (None, candidate.source) else candidate.source
        payload = candidate.model_copy(update={"source": own}).model_dump_json()
        rows.append({"run_id": run_id, "candidate_id": key, "payload": payload})
    rows = [row for row in rows if row["candidate_id"] not in there]
    if rows:
        connection.execute(run_candidates.insert(), rows)


def _newest(*columns: Any) -> sa.Select[Any]:
    """Select of runs, newest first."""
    return sa.select(*columns).order_by(runs.c.created_at.desc(), runs.c.run_id.desc())
