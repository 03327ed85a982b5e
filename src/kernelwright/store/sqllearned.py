"""What outlives every run: the ledger, the plan archive and the findings."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.run import Outcome
from kernelwright.store.base import FindingState, LearnedStore, Notebook
from kernelwright.store.schema import VERSION_KEY, findings, meta, notes, outcomes, plans
from kernelwright.store.sqlrecords import SqlRecords, insert

T = TypeVar("T")

_SEEN = ("progress", "outcomes")
"""Where the notes say which outcome was the last that the Librarian has been given."""
_BATCH = 400
"""Rows of two values a statement: SQLite once took 999 values."""


class Parse(Protocol):
    """Reads a payload; raises StoreError where it does not parse."""

    def __call__(self, parse: Callable[[str], T], payload: str) -> T: ...


class SqlLearned(SqlRecords, LearnedStore):
    """See LearnedStore."""

    def add_outcome(self, outcome: Outcome) -> int:
        def add(connection: Connection) -> int:
            lock_ledger(connection)
            return insert_outcome(connection, outcome)

        return self._write(add)

    def iter_outcomes(self, *, until: int | None = None) -> Iterator[tuple[int, Outcome]]:
        rows = self._numbered(outcomes.c.outcome_id, outcomes.c.payload, until)
        return ((row.number, self._parse(Outcome.model_validate_json, row.payload)) for row in rows)

    def last_outcome_id(self) -> int:
        return self._last(outcomes.c.outcome_id)

    def add_plan(self, plan: ArchivedPlan) -> int:
        return self._write(lambda connection: insert_plan(connection, plan))

    def iter_plans(self, *, until: int | None = None) -> Iterator[tuple[int, ArchivedPlan]]:
        rows = self._numbered(plans.c.plan_id, plans.c.payload, until)
        return ((row.number, self._parse(ArchivedPlan.model_validate_json, row.payload)) for row in rows)

    def last_plan_id(self) -> int:
        return self._last(plans.c.plan_id)

    def add_finding(self, finding: Finding) -> None:
        self._write(lambda connection: put_finding(connection, finding))

    def iter_findings(self, state: FindingState | None = None) -> Iterator[Finding]:
        query = sa.select(findings.c.payload).order_by(findings.c.position)
        if state is not None:
            query = query.where(findings.c.state == state)
        return (self._parse(Finding.model_validate_json, row.payload) for row in self._read(query))

    def count_learned(self) -> tuple[int, int]:
        counted = (sa.select(sa.func.count()).select_from(table) for table in (outcomes, plans))
        n_outcomes, n_plans = (int(self._read(query)[0][0]) for query in counted)
        return n_outcomes, n_plans

    def learn(self, study: Callable[[Notebook], T], *, anew: bool = False) -> T:
        def work(connection: Connection) -> T:
            lock_ledger(connection)
            if anew:
                connection.execute(notes.delete())
            return study(SqlNotebook(connection, self._parse))

        return self._write(work)

    def _numbered(self, number: sa.Column[int], payload: sa.Column[str], until: int | None) -> list[Row[Any]]:
        query = sa.select(number.label("number"), payload).order_by(number)
        return self._read(query if until is None else query.where(number <= until))

    def _last(self, number: sa.Column[int]) -> int:
        return int(self._read(sa.select(sa.func.max(number)))[0][0] or 0)


class SqlNotebook(Notebook):
    """See Notebook. Lives as long as its transaction."""

    def __init__(self, connection: Connection, parse: Parse) -> None:
        self._connection, self._parse = connection, parse

    def new_outcomes(self) -> Sequence[Outcome]:
        seen = int(self.read([_SEEN]).get(_SEEN, "0"))
        number, payload = outcomes.c.outcome_id, outcomes.c.payload
        rows = self._rows(sa.select(number, payload).where(number > seen).order_by(number))
        if rows:
            self.write({_SEEN: str(rows[-1].outcome_id)})
        return [self._parse(Outcome.model_validate_json, row.payload) for row in rows]

    def plans_of(self, run_ids: Collection[str]) -> Sequence[ArchivedPlan]:
        found: list[Row[Any]] = []
        for some in batched(run_ids):
            found += self._rows(sa.select(plans.c.plan_id, plans.c.payload).where(plans.c.run_id.in_(some)))
        found.sort(key=lambda row: int(row.plan_id))
        return [self._parse(ArchivedPlan.model_validate_json, row.payload) for row in found]

    def read(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        found: list[Row[Any]] = []
        for some in batched(keys):
            found += self._rows(sa.select(notes).where(sa.tuple_(notes.c.topic, notes.c.name).in_(some)))
        return {(row.topic, row.name): row.payload for row in found}

    def read_topic(self, topic: str) -> Mapping[str, str]:
        return {row.name: row.payload for row in self._rows(sa.select(notes).where(notes.c.topic == topic))}

    def write(self, written: Mapping[tuple[str, str], str]) -> None:
        for some in batched(written):
            is_one = sa.tuple_(notes.c.topic, notes.c.name).in_(some)
            self._connection.execute(notes.delete().where(is_one))
            rows = [{"topic": key[0], "name": key[1], "payload": written[key]} for key in some]
            self._connection.execute(notes.insert(), rows)

    def findings(self) -> Sequence[Finding]:
        rows = self._rows(sa.select(findings.c.payload).order_by(findings.c.position))
        return [self._parse(Finding.model_validate_json, row.payload) for row in rows]

    def add_finding(self, finding: Finding) -> None:
        put_finding(self._connection, finding)

    def _rows(self, query: sa.Select[Any]) -> Sequence[Row[Any]]:
        return self._connection.execute(query).all()


def batched(items: Collection[T]) -> Iterator[list[T]]:
    """Yield the items in pieces that fit one statement of every database."""
    ordered = list(items)
    for start in range(0, len(ordered), _BATCH):
        yield ordered[start : start + _BATCH]


def lock_ledger(connection: Connection) -> None:
    """Let one transaction at a time add outcomes or learn: their numbers are in the order of commits."""
    query = sa.select(meta.c.value).where(meta.c.key == VERSION_KEY).with_for_update()
    connection.execute(query).first()


def put_finding(connection: Connection, finding: Finding) -> None:
    """Record or replace a finding within a transaction."""
    row = {"state": finding.state, "payload": finding.model_dump_json()}
    replaced = connection.execute(findings.update().where(findings.c.finding_id == finding.id).values(row))
    if replaced.rowcount == 0:
        insert(connection, findings, row | {"finding_id": finding.id})


def insert_outcome(connection: Connection, outcome: Outcome) -> int:
    """Append to the ledger within a transaction; return the number."""
    row = {"run_id": outcome.run_id, "payload": outcome.model_dump_json()}
    return insert(connection, outcomes, row)


def insert_plan(connection: Connection, plan: ArchivedPlan) -> int:
    """Append to the archive within a transaction, unless it is there; return the number."""
    row = {"run_id": plan.run_id, "best_source": plan.best_source}
    found = connection.execute(sa.select(plans.c.plan_id).filter_by(**row)).scalar()
    return found or insert(connection, plans, row | {"payload": plan.model_dump_json()})
