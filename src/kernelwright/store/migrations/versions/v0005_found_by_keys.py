"""Version 5: runs and plans are found by keys, and the sums over all outcomes are kept."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op
from pydantic import ValidationError

from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.run import Outcome, RunSpec
from kernelwright.store import sqltallies
from kernelwright.store.keys import machine_key, question_of, signature_key

revision, down_revision = "0005", "0004"

_RUNS = sa.table("runs", *map(sa.column, ("run_id", "spec", "question", "machine")))
_PLANS = sa.table("plans", *map(sa.column, ("plan_id", "payload", "target", "signature", "speedup")))
_OUTCOMES = sa.table("outcomes", sa.column("outcome_id"), sa.column("payload"))
_PAGE = 500


def upgrade() -> None:
    """Add columns and fill them; what cannot be read stays as it is and is found by no key."""
    op.create_table(
        "tallies",
        sa.Column("topic", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.add_column("runs", sa.Column("question", sa.String(32)))
    op.add_column("runs", sa.Column("machine", sa.String(32)))
    op.add_column("plans", sa.Column("target", sa.Text))
    op.add_column("plans", sa.Column("signature", sa.String(32)))
    op.add_column("plans", sa.Column("speedup", sa.Float))
    _fill_runs()
    _fill_plans()
    _count_outcomes()
    op.create_index("runs_by_question", "runs", ["question", "created_at"])
    op.create_index("runs_by_machine", "runs", ["machine", "state"])
    op.create_index("runs_by_experiment", "runs", ["experiment", "created_at"])
    op.create_index("plans_by_signature", "plans", ["target", "signature", "speedup"])
    op.create_index("ix_outcomes_run_id", "outcomes", ["run_id"])


def _fill_runs() -> None:
    for row in _rows(_RUNS.c.run_id, _RUNS.c.spec):
        try:
            spec = RunSpec.model_validate_json(row.spec)
        except ValidationError:
            continue
        values = {"question": question_of(spec), "machine": machine_key(spec.machine)}
        op.get_bind().execute(_RUNS.update().where(_RUNS.c.run_id == row.run_id).values(values))


def _fill_plans() -> None:
    for row in _rows(_PLANS.c.plan_id, _PLANS.c.payload):
        try:
            plan = ArchivedPlan.model_validate_json(row.payload)
        except ValidationError:
            continue
        values = {"target": plan.target, "signature": signature_key(plan), "speedup": plan.speedup}
        op.get_bind().execute(_PLANS.update().where(_PLANS.c.plan_id == row.plan_id).values(values))


def _count_outcomes() -> None:
    some: list[Outcome] = []
    last = 0
    for row in _rows(_OUTCOMES.c.outcome_id, _OUTCOMES.c.payload):
        try:
            some.append(Outcome.model_validate_json(row.payload))
        except ValidationError:
            continue
        last = row.outcome_id
        if len(some) == 100 * _PAGE:
            sqltallies.count(op.get_bind(), some, last)
            some = []
    sqltallies.count(op.get_bind(), some, last)


def _rows(key: sa.ColumnClause[Any], text: sa.ColumnClause[Any]) -> Iterator[Any]:
    """Yield the rows of a table by their keys, page by page: a store may hold millions."""
    after = None
    while True:
        query = sa.select(key, text).order_by(key).limit(_PAGE)
        found = op.get_bind().execute(query if after is None else query.where(key > after)).all()
        yield from found
        if len(found) < _PAGE:
            return
        after = found[-1][0]
