"""Copies runs, and what they left to others, from one store into another."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
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
    diverged: tuple[str, ...]
    """Ids of the runs that went on one way here and another way there; they stay as they are there."""
    outcomes: int
    plans: int
    findings: int


def copy_runs(
    source: SqlStore, target: SqlStore, run_ids: Collection[str] | None = None, say: Say | None = None
) -> CopyReport:
    """Copy runs, their outcomes, their plans, and all findings; nothing is copied twice.

    Whatever the other store holds stays as it is, but for a run that has not finished there, that nobody is
    at work on, and that has gone on here: it becomes as it is here. A run that went on differently in both
    stores stays, and nothing of it is copied. What is copied has the same ids and times. What is counted from
    outcomes is counted in the other store, and what the Librarian makes of them it makes there. It can be
    interrupted and begun again.

    Args:
        source: is read.
        target: is written.
        run_ids: of the runs to copy; None: all there are, and the outcomes and plans of runs that are not.
        say: is told how many runs of how many are done.
    """
    return _Copy(source, target, run_ids).all(say or (lambda done, of: None))


class _RunThere(StrEnum):
    """How a run stands in the store that is copied into."""

    MISSING = "missing"
    BEHIND = "behind"
    """It has not finished, and begins as it does here."""
    AT_WORK = "at work"
    DIVERGED = "diverged"
    """It has not finished, and went on otherwise than here: what it leaves to others is its own."""
    SETTLED = "settled"
    """It stays as it is."""


class _Copy:
    def __init__(self, source: SqlStore, target: SqlStore, run_ids: Collection[str] | None) -> None:
        self._source, self._target = source, target
        self._only = None if run_ids is None else set(run_ids)

    def all(self, say: Say) -> CopyReport:
        here, there = (self._states(store) for store in (self._source, self._target))
        held = set(self._source.leases_of(list(here)))
        wanted = [r for r in here if r not in held and there.get(r) != RunState.FINISHED]
        found: dict[str, _RunThere] = {}
        for done, some in enumerate(batched(wanted, _RUNS)):
            say(done * _RUNS, len(wanted))
            found |= self._copy(some)
        held |= {run_id for run_id, stood in found.items() if stood is _RunThere.AT_WORK}
        diverged = [run_id for run_id, stood in found.items() if stood is _RunThere.DIVERGED]
        left_out = held.union(diverged)
        count = Counter(found.values())
        new, carried_on = count[_RunThere.MISSING], count[_RunThere.BEHIND]
        return CopyReport(
            runs=new,
            carried_on=carried_on,
            unchanged=len(here) - new - carried_on - len(left_out),
            at_work=tuple(run_id for run_id in here if run_id in held),
            diverged=tuple(diverged),
            outcomes=self._copy_outcomes(left_out),
            plans=self._copy_plans(left_out),
            findings=self._copy_findings(),
        )

    def _wanted(self, run_id: str) -> bool:
        return self._only is None or run_id in self._only

    def _states(self, store: SqlStore) -> dict[str, str]:
        query = sa.select(runs.c.run_id, runs.c.state).order_by(runs.c.created_at, runs.c.run_id)
        return {row.run_id: row.state for row in store.rows(query) if self._wanted(row.run_id)}

    def _copy(self, run_ids: Sequence[str]) -> dict[str, _RunThere]:
        """Copy runs as far as they may be; return how each stood there before."""
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

        def write(connection: Connection) -> dict[str, _RunThere]:
            stood = self._look(connection, rows[runs], _payloads(rows[events]))
            _put_runs(connection, rows[runs], stood)
            taken = [r for r, how in stood.items() if how in (_RunThere.MISSING, _RunThere.BEHIND)]
            for table in _OF_A_RUN:
                connection.execute(table.delete().where(table.c.run_id.in_(taken)))
            new = {table: [row for row in rows[table] if row.run_id in taken] for table in _OF_A_RUN}
            _put(connection, events, new[events])
            _put(connection, model_calls, new[model_calls], "call_id")
            used = {row.candidate_id: sources[row.candidate_id] for row in new[run_candidates]}
            known = _put_sources(connection, used)
            own = [_in_own_words(row, sources, known) for row in new[run_candidates]]
            if own:
                connection.execute(run_candidates.insert(), own)
            return stood

        return self._target.transact(write)

    def _look(
        self, connection: Connection, here: Sequence[Row[Any]], events_here: Mapping[str, Sequence[str]]
    ) -> dict[str, _RunThere]:
        """Return how runs stand there; what is there of them stays locked until the transaction ends."""
        ids = [row.run_id for row in here]
        query = sa.select(runs.c.run_id, runs.c.state).where(runs.c.run_id.in_(ids)).order_by(runs.c.run_id)
        states = {row.run_id: row.state for row in connection.execute(query.with_for_update())}
        held = self._target.held_within(connection, ids)
        said = sa.select(events.c.run_id, events.c.payload).where(events.c.run_id.in_(ids))
        events_there = _payloads(connection.execute(said.order_by(events.c.seq)))

        def look(row: Row[Any]) -> _RunThere:
            run_id = row.run_id
            if run_id not in states:
                return _RunThere.MISSING
            if run_id in held:
                return _RunThere.AT_WORK
            mine, theirs = events_here.get(run_id, []), events_there.get(run_id, [])
            if states[run_id] == RunState.FINISHED:
                return _RunThere.SETTLED
            both = min(len(mine), len(theirs))
            if mine[:both] != theirs[:both]:
                return _RunThere.DIVERGED
            has_ended = len(theirs) == both and row.state not in (RunState.RUNNING, states[run_id])
            has_more = len(mine) > both or has_ended
            return _RunThere.BEHIND if has_more else _RunThere.SETTLED

        return {row.run_id: look(row) for row in here}

    def _copy_outcomes(self, left_out: Collection[str]) -> int:
        number = sa.func.min(outcomes.c.outcome_id)
        first = sa.select(outcomes.c.run_id).group_by(outcomes.c.run_id).order_by(number)
        there = set(left_out)
        there |= {row.run_id for row in self._target.rows(sa.select(outcomes.c.run_id).distinct())}
        left = [
            r.run_id for r in self._source.rows(first) if self._wanted(r.run_id) and r.run_id not in there
        ]
        n = 0
        for some in batched(left, _RUNS):
            query = sa.select(outcomes.c.payload).where(outcomes.c.run_id.in_(some))
            rows = self._source.rows(query.order_by(outcomes.c.outcome_id))
            found = [self._source.parsed(Outcome.model_validate_json, row.payload) for row in rows]
            n += self._target.transact(partial(_put_outcomes, found=found))
        return n

    def _copy_plans(self, left_out: Collection[str]) -> int:
        found = self._source.rows(sa.select(plans).order_by(plans.c.plan_id))
        wanted = [row for row in found if self._wanted(row.run_id) and row.run_id not in left_out]
        return self._put_missing(plans, wanted, "plan_id", ("run_id",))

    def _copy_findings(self) -> int:
        found = self._source.rows(sa.select(findings).order_by(findings.c.position))
        return self._put_missing(findings, found, "position", ("finding_id",))

    def _put_missing(self, table: sa.Table, rows: Sequence[Row[Any]], number: str, key: Sequence[str]) -> int:
        """Insert the rows whose key is not there, as the same transaction finds it; return how many."""

        def put(connection: Connection) -> int:
            there = {tuple(row) for row in connection.execute(sa.select(*(table.c[name] for name in key)))}
            new = [row for row in rows if tuple(row._mapping[name] for name in key) not in there]
            _put(connection, table, new, number)
            return len(new)

        return self._target.transact(put)


def _payloads(rows: Iterable[Row[Any]]) -> dict[str, list[str]]:
    """Return the events of each run as they are stored."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.run_id, []).append(row.payload)
    return found


def _put(
    connection: Connection, table: sa.Table, rows: Iterable[Row[Any]], number: str | None = None
) -> None:
    """Insert rows; those with a ``number`` get a new one, in their order."""
    plain = [{name: value for name, value in row._mapping.items() if name != number} for row in rows]
    for some in batched(plain):
        connection.execute(table.insert(), some)


def _put_runs(connection: Connection, rows: Sequence[Row[Any]], stood: Mapping[str, _RunThere]) -> None:
    """Insert runs that are missing, and bring those that are behind up to date."""
    _put(connection, runs, [row for row in rows if stood[row.run_id] is _RunThere.MISSING])
    for row in rows:
        if stood[row.run_id] is _RunThere.BEHIND:
            connection.execute(runs.update().where(runs.c.run_id == row.run_id).values(dict(row._mapping)))


def _put_outcomes(connection: Connection, found: Sequence[Outcome]) -> int:
    """Append the outcomes of runs that have left none there; return how many."""
    lock_ledger(connection)
    ids = list({outcome.run_id for outcome in found})
    query = sa.select(outcomes.c.run_id).where(outcomes.c.run_id.in_(ids)).distinct()
    there = set(connection.execute(query).scalars())
    new = [outcome for outcome in found if outcome.run_id not in there]
    insert_outcomes(connection, new)
    return len(new)


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
