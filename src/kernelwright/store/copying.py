"""Copies runs, and what they left to others, from one store into another."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from kernelwright.core.frozen import Frozen
from kernelwright.core.run import Outcome, RunState
from kernelwright.store.schema import (
    candidates,
    events,
    findings,
    model_calls,
    outcomes,
    plans,
    run_candidates,
    runs,
)
from kernelwright.store.sqllearned import insert_outcomes, lock_ledger
from kernelwright.store.sqlrecords import batched
from kernelwright.store.sqlstore import SqlStore

_RUNS = 20
"""Runs that are copied in one transaction."""
_OF_A_RUN = {
    events: events.c.seq,
    run_candidates: run_candidates.c.position,
    model_calls: model_calls.c.call_id,
}
"""Tables with rows of one run, and their order."""

Say = Callable[[int, int], None]


class CopyReport(Frozen):
    """What was copied."""

    runs: int
    """New in the store that was copied into."""
    carried_on: int
    """Were there, and had gone on in the other store."""
    unchanged: int
    """Were there."""
    at_work: tuple[str, ...]
    """Ids of the runs that a process is at work on; they were left out."""
    outcomes: int
    plans: int
    findings: int


def copy_runs(
    source: SqlStore, target: SqlStore, run_ids: Collection[str] | None = None, say: Say | None = None
) -> CopyReport:
    """Copy runs, their outcomes, their plans, and all findings; nothing is copied twice.

    Whatever the other store holds stays as it is, but for a run that has not ended there, that nobody is at
    work on, and that has gone on here: it becomes as it is here. What is copied has the same ids and times.
    What is counted from outcomes is counted in the other store, and what the Librarian makes of them it makes
    there. It can be interrupted and begun again.

    Args:
        source: is read.
        target: is written.
        run_ids: of the runs to copy; None: all there are, and the outcomes and plans of runs that are not.
        say: is told how many runs of how many are done.
    """
    return _Copy(source, target, run_ids).all(say or (lambda done, of: None))


class _Copy:
    def __init__(self, source: SqlStore, target: SqlStore, run_ids: Collection[str] | None) -> None:
        self._source, self._target = source, target
        self._only = None if run_ids is None else set(run_ids)

    def all(self, say: Say) -> CopyReport:
        here, there = (self._states(store) for store in (self._source, self._target))
        held = set(self._source.leases_of(list(here))) | set(self._target.leases_of(list(there)))
        new = [run_id for run_id in here if run_id not in there and run_id not in held]
        open_ = [run_id for run_id in here if there.get(run_id) == RunState.RUNNING and run_id not in held]
        more = [run_id for run_id in open_ if self._has_gone_on(run_id, here[run_id])]
        for done, some in enumerate(batched([*new, *more], _RUNS)):
            say(done * _RUNS, len(new) + len(more))
            self._copy(some)
        at_work = tuple(run_id for run_id in here if run_id in held)
        return CopyReport(
            runs=len(new),
            carried_on=len(more),
            unchanged=len(here) - len(new) - len(more) - len(at_work),
            at_work=at_work,
            outcomes=self._copy_outcomes(held),
            plans=self._copy_plans(held),
            findings=self._copy_findings(),
        )

    def _wanted(self, run_id: str) -> bool:
        return self._only is None or run_id in self._only

    def _states(self, store: SqlStore) -> dict[str, str]:
        query = sa.select(runs.c.run_id, runs.c.state).order_by(runs.c.created_at, runs.c.run_id)
        return {row.run_id: row.state for row in store.rows(query) if self._wanted(row.run_id)}

    def _has_gone_on(self, run_id: str, state: str) -> bool:
        """True where the run begins as the other store has it, which is running there, and has more."""
        query = sa.select(events.c.payload).where(events.c.run_id == run_id).order_by(events.c.seq)
        here, there = ([row.payload for row in store.rows(query)] for store in (self._source, self._target))
        has_more = len(here) > len(there) or state != RunState.RUNNING
        return has_more and here[: len(there)] == there

    def _copy(self, run_ids: Sequence[str]) -> None:
        rows = {
            table: self._source.rows(sa.select(table).where(table.c.run_id.in_(run_ids)).order_by(order))
            for table, order in {runs: runs.c.created_at, **_OF_A_RUN}.items()
        }
        words = self._source.rows(
            sa.select(candidates)
            .join(run_candidates, run_candidates.c.candidate_id == candidates.c.candidate_id)
            .where(run_candidates.c.run_id.in_(run_ids))
            .distinct()
        )
        sources = {row.candidate_id: row.source for row in words}

        def write(connection: Connection) -> None:
            for table in _OF_A_RUN:
                connection.execute(table.delete().where(table.c.run_id.in_(run_ids)))
            known = _put_sources(connection, sources)
            _put_runs(connection, rows[runs])
            _put(connection, events, rows[events])
            _put(connection, model_calls, rows[model_calls], "call_id")
            own = [_in_own_words(row, sources, known) for row in rows[run_candidates]]
            if own:
                connection.execute(run_candidates.insert(), own)

        self._target.transact(write)

    def _copy_outcomes(self, held: Collection[str]) -> int:
        number = sa.func.min(outcomes.c.outcome_id)
        first = sa.select(outcomes.c.run_id).group_by(outcomes.c.run_id).order_by(number)
        there = {row.run_id for row in self._target.rows(sa.select(outcomes.c.run_id).distinct())} | set(held)
        left = [
            r.run_id for r in self._source.rows(first) if self._wanted(r.run_id) and r.run_id not in there
        ]
        n = 0
        for some in batched(left, _RUNS):
            query = sa.select(outcomes.c.payload).where(outcomes.c.run_id.in_(some))
            rows = self._source.rows(query.order_by(outcomes.c.outcome_id))
            found = [self._source.parsed(Outcome.model_validate_json, row.payload) for row in rows]
            self._target.transact(partial(_put_outcomes, found=found))
            n += len(found)
        return n

    def _copy_plans(self, held: Collection[str]) -> int:
        there = {tuple(row) for row in self._target.rows(sa.select(plans.c.run_id, plans.c.best_source))}
        found = [
            row
            for row in self._source.rows(sa.select(plans).order_by(plans.c.plan_id))
            if self._wanted(row.run_id)
            and row.run_id not in held
            and (row.run_id, row.best_source) not in there
        ]
        self._target.transact(lambda connection: _put(connection, plans, found, "plan_id"))
        return len(found)

    def _copy_findings(self) -> int:
        there = {row.finding_id for row in self._target.rows(sa.select(findings.c.finding_id))}
        rows = self._source.rows(sa.select(findings).order_by(findings.c.position))
        found = [row for row in rows if row.finding_id not in there]
        self._target.transact(lambda connection: _put(connection, findings, found, "position"))
        return len(found)


def _put(
    connection: Connection, table: sa.Table, rows: Iterable[Row[Any]], number: str | None = None
) -> None:
    """Insert rows; those with a ``number`` get a new one, in their order."""
    plain = [{name: value for name, value in row._mapping.items() if name != number} for row in rows]
    for some in batched(plain):
        connection.execute(table.insert(), some)


def _put_runs(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    """Insert runs, or bring those that are there up to date."""
    ids = [row.run_id for row in rows]
    query = sa.select(runs.c.run_id).where(runs.c.run_id.in_(ids))
    there = set(connection.execute(query).scalars())
    _put(connection, runs, [row for row in rows if row.run_id not in there])
    for row in rows:
        if row.run_id in there:
            connection.execute(runs.update().where(runs.c.run_id == row.run_id).values(dict(row._mapping)))


def _put_outcomes(connection: Connection, found: Sequence[Outcome]) -> None:
    lock_ledger(connection)
    insert_outcomes(connection, found)


def _put_sources(connection: Connection, sources: Mapping[str, str]) -> dict[str, str]:
    """Insert the sources that are not there; return those that are."""
    known: dict[str, str] = {}
    for some in batched(sources):
        query = sa.select(candidates).where(candidates.c.candidate_id.in_(some))
        known |= {row.candidate_id: row.source for row in connection.execute(query)}
    new = [{"candidate_id": key, "source": text} for key, text in sources.items() if key not in known]
    for rows in batched(new):
        connection.execute(candidates.insert(), rows)
    return known


def _in_own_words(row: Row[Any], sources: Mapping[str, str], known: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of a run's candidate for a store that may have the program in other words."""
    payload, text = row.payload, sources[row.candidate_id]
    if known.get(row.candidate_id, text) != text:
        candidate = json.loads(payload)
        payload = json.dumps(candidate | {"source": candidate["source"] or text})
    return {"run_id": row.run_id, "candidate_id": row.candidate_id, "payload": payload}
