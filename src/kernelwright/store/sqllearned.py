"""What outlives every run: the ledger, the plan archive and the findings."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.run import Outcome
from kernelwright.store.base import FindingState, LearnedStore
from kernelwright.store.schema import findings, outcomes, plans
from kernelwright.store.sqlrecords import SqlRecords, insert


class SqlLearned(SqlRecords, LearnedStore):
    """See LearnedStore."""

    def add_outcome(self, outcome: Outcome) -> int:
        return self._write(lambda connection: insert_outcome(connection, outcome))

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
        is_this = findings.c.finding_id == finding.id
        row = {"state": finding.state, "payload": finding.model_dump_json()}

        def add(connection: Connection) -> None:
            replaced = connection.execute(findings.update().where(is_this).values(row))
            if replaced.rowcount == 0:
                insert(connection, findings, row | {"finding_id": finding.id})

        self._write(add)

    def iter_findings(self, state: FindingState | None = None) -> Iterator[Finding]:
        query = sa.select(findings.c.payload).order_by(findings.c.position)
        if state is not None:
            query = query.where(findings.c.state == state)
        return (self._parse(Finding.model_validate_json, row.payload) for row in self._read(query))

    def _numbered(self, number: sa.Column[int], payload: sa.Column[str], until: int | None) -> list[Row[Any]]:
        query = sa.select(number.label("number"), payload).order_by(number)
        return self._read(query if until is None else query.where(number <= until))

    def _last(self, number: sa.Column[int]) -> int:
        return int(self._read(sa.select(sa.func.max(number)))[0][0] or 0)


def insert_outcome(connection: Connection, outcome: Outcome) -> int:
    """Append to the ledger within a transaction; return the number."""
    row = {"run_id": outcome.run_id, "payload": outcome.model_dump_json()}
    return insert(connection, outcomes, row)


def insert_plan(connection: Connection, plan: ArchivedPlan) -> int:
    """Append to the archive within a transaction, unless it is there; return the number."""
    row = {"run_id": plan.run_id, "best_source": plan.best_source}
    found = connection.execute(sa.select(plans.c.plan_id).filter_by(**row)).scalar()
    return found or insert(connection, plans, row | {"payload": plan.model_dump_json()})
