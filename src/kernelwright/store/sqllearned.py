"""What outlives every run: the ledger, the plan archive and the findings."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.run import Outcome
from kernelwright.core.tally import EffectKey, Histogram, Tally, TallyKey, tallies_of
from kernelwright.store import sqltallies
from kernelwright.store.base import FindingState, LearnedStore, Notebook
from kernelwright.store.keys import signature_key
from kernelwright.store.schema import VERSION_KEY, findings, meta, notes, outcomes, plans, tallies
from kernelwright.store.sqlrecords import SqlRecords, batched, insert, read_notes, write_notes

T = TypeVar("T")

_SEEN = ("progress", "outcomes")
"""Where the notes say which outcome was the last that the Librarian has been given."""
_PAGE = 100
"""Plans that are read at a time."""


class Parse(Protocol):
    """Reads a payload; raises StoreError where it does not parse."""

    def __call__(self, parse: Callable[[str], T], payload: str) -> T: ...


class SqlLearned(SqlRecords, LearnedStore):
    """See LearnedStore."""

    def add_outcome(self, outcome: Outcome) -> int:
        def add(connection: Connection) -> int:
            lock_ledger(connection)
            return insert_outcomes(connection, [outcome])

        return self._write(add)

    def iter_outcomes(self, *, until: int | None = None) -> Iterator[tuple[int, Outcome]]:
        rows = self._numbered(outcomes.c.outcome_id, outcomes.c.payload, until)
        return ((row.number, self._parse(Outcome.model_validate_json, row.payload)) for row in rows)

    def tallies(self, *, until: int | None = None) -> Mapping[TallyKey, Tally]:
        if until == 0:
            return {}
        topics = tallies.c.topic.in_((sqltallies.CONTEXT, sqltallies.PROGRESS))
        counted, found = sqltallies.read_tallies(self._read(sa.select(tallies).where(topics)))
        if until is None or until >= counted:
            return found
        number = outcomes.c.outcome_id
        if until < counted // 2:
            return tallies_of(outcome for _, outcome in self.iter_outcomes(until=until))
        later = self._read(sa.select(outcomes.c.payload).where(number > until, number <= counted))
        taken = tallies_of(self._parse(Outcome.model_validate_json, row.payload) for row in later)
        left = {key: tally.minus(taken[key]) if key in taken else tally for key, tally in found.items()}
        return {key: tally for key, tally in left.items() if tally.tries}

    def histograms(self) -> Mapping[EffectKey, Histogram]:
        rows = self._read(sa.select(tallies).where(tallies.c.topic == sqltallies.EFFECT))
        return sqltallies.read_histograms(rows)

    def count_tasks(self) -> int:
        query = sa.select(sa.func.count()).select_from(tallies).where(tallies.c.topic == sqltallies.TASK)
        return int(self._read(query)[0][0])

    def last_outcome_id(self) -> int:
        return self._last(outcomes.c.outcome_id)

    def add_plan(self, plan: ArchivedPlan) -> int:
        return self._write(lambda connection: insert_plan(connection, plan))

    def iter_plans(self, *, until: int | None = None) -> Iterator[tuple[int, ArchivedPlan]]:
        rows = self._numbered(plans.c.plan_id, plans.c.payload, until)
        return ((row.number, self._parse(ArchivedPlan.model_validate_json, row.payload)) for row in rows)

    def newest_plans(self, target: str, count: int) -> Sequence[ArchivedPlan]:
        newest = sa.select(plans.c.plan_id).where(plans.c.target == target)
        newest = newest.order_by(plans.c.plan_id.desc()).limit(count)
        query = sa.select(plans.c.payload).where(plans.c.plan_id.in_(newest))
        rows = self._read(query.order_by(plans.c.plan_id.desc()))
        return [self._parse(ArchivedPlan.model_validate_json, row.payload) for row in rows]

    def plan_signatures(self, target: str, *, until: int | None = None) -> Mapping[str, ArchivedPlan]:
        first = sa.select(sa.func.min(plans.c.plan_id)).where(plans.c.target == target)
        if until is not None:
            first = first.where(plans.c.plan_id <= until)
        first = first.group_by(plans.c.signature)
        rows = self._read(sa.select(plans.c.signature, plans.c.payload).where(plans.c.plan_id.in_(first)))
        return {r.signature: self._parse(ArchivedPlan.model_validate_json, r.payload) for r in rows}

    def iter_plans_of(
        self, target: str, signatures: Collection[str], *, until: int | None = None
    ) -> Iterator[ArchivedPlan]:
        query = sa.select(plans.c.plan_id, plans.c.speedup)
        query = query.where(plans.c.target == target, plans.c.signature.in_(list(signatures)))
        if until is not None:
            query = query.where(plans.c.plan_id <= until)
        numbers = [row.plan_id for row in sorted(self._read(query), key=lambda r: (-r.speedup, r.plan_id))]
        for some in batched(numbers, _PAGE):
            rows = self._read(sa.select(plans.c.plan_id, plans.c.payload).where(plans.c.plan_id.in_(some)))
            known = {row.plan_id: row.payload for row in rows}
            yield from (self._parse(ArchivedPlan.model_validate_json, known[number]) for number in some)

    def last_plan_id(self) -> int:
        return self._last(plans.c.plan_id)

    def add_finding(self, finding: Finding) -> None:
        self._write(lambda connection: put_finding(connection, finding))

    def iter_findings(self, state: FindingState | None = None) -> Iterator[Finding]:
        query = sa.select(findings.c.payload).order_by(findings.c.position)
        if state is not None:
            query = query.where(findings.c.state == state)
        return (self._parse(Finding.model_validate_json, row.payload) for row in self._read(query))

    def count_plans(self) -> int:
        return int(self._read(sa.select(sa.func.count()).select_from(plans))[0][0])

    def count_learned(self) -> tuple[int, int]:
        return sum(tally.tries for tally in self.tallies().values()), self.count_plans()

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
        return read_notes(self._connection, notes, keys)

    def read_topic(self, topic: str) -> Mapping[str, str]:
        return {row.name: row.payload for row in self._rows(sa.select(notes).where(notes.c.topic == topic))}

    def write(self, written: Mapping[tuple[str, str], str]) -> None:
        write_notes(self._connection, notes, written)

    def findings(self) -> Sequence[Finding]:
        rows = self._rows(sa.select(findings.c.payload).order_by(findings.c.position))
        return [self._parse(Finding.model_validate_json, row.payload) for row in rows]

    def add_finding(self, finding: Finding) -> None:
        put_finding(self._connection, finding)

    def _rows(self, query: sa.Select[Any]) -> Sequence[Row[Any]]:
        return self._connection.execute(query).all()


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


def insert_outcomes(connection: Connection, added: Sequence[Outcome]) -> int:
    """Append to the ledger, which is locked, and to its tallies; return the last one's number."""
    rows = [{"run_id": outcome.run_id, "payload": outcome.model_dump_json()} for outcome in added]
    if rows:
        connection.execute(outcomes.insert(), rows)
    last = int(connection.execute(sa.select(sa.func.max(outcomes.c.outcome_id))).scalar() or 0)
    sqltallies.count(connection, added, last)
    return last


def insert_plan(connection: Connection, plan: ArchivedPlan) -> int:
    """Append to the archive within a transaction, unless it is there; return the number."""
    row = {"run_id": plan.run_id, "best_source": plan.best_source}
    found = connection.execute(sa.select(plans.c.plan_id).filter_by(**row)).scalar()
    return found or insert(connection, plans, row | plan_columns(plan) | {"payload": plan.model_dump_json()})


def plan_columns(plan: ArchivedPlan) -> dict[str, str | float]:
    """Return what a plan is found by."""
    return {"target": plan.target, "signature": signature_key(plan), "speedup": plan.speedup}
