"""The tables. Payloads are the JSON text of the nouns; columns are only what queries need."""

from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

SCHEMA_VERSION = 3
"""Raised whenever a table or a stored noun changes so that older or newer code would misread it."""

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(32), primary_key=True),
    Column("experiment", Text, index=True),
    Column("state", String(16), nullable=False),
    Column("failure", Text),
    # Times are ISO 8601 in UTC with microseconds, so that text order is time order on every database.
    Column("created_at", String(32), nullable=False, index=True),
    Column("updated_at", String(32), nullable=False),
    Column("spec", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("candidate", String(32)),
    Column("payload", Text, nullable=False),
    Index("events_by_candidate", "run_id", "kind", "candidate"),
)

candidates = Table(
    "candidates",
    metadata,
    Column("candidate_id", String(32), primary_key=True),
    Column("source", Text, nullable=False),
)

run_candidates = Table(
    "run_candidates",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.run_id"), nullable=False),
    Column("candidate_id", ForeignKey("candidates.candidate_id"), nullable=False, index=True),
    # The candidate; its source only where it is worded otherwise than the one in `candidates`.
    Column("payload", Text, nullable=False),
    Index("run_candidates_once", "run_id", "candidate_id", unique=True),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("outcome_id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(32), nullable=False),
    Column("payload", Text, nullable=False),
    sqlite_autoincrement=True,
)

model_calls = Table(
    "model_calls",
    metadata,
    Column("call_id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.run_id"), nullable=False, index=True),
    Column("payload", Text, nullable=False),
    sqlite_autoincrement=True,
)

findings = Table(
    "findings",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("finding_id", String(32), nullable=False, unique=True),
    Column("state", String(16), nullable=False),
    Column("payload", Text, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("plan_id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(32), nullable=False),
    Column("best_source", String(32), nullable=False),
    Column("payload", Text, nullable=False),
    Index("plans_once", "run_id", "best_source", unique=True),
    sqlite_autoincrement=True,
)

ADDED_IN: dict[int, tuple[Table, ...]] = {2: (model_calls, findings, plans)}
"""Version -> the tables it added to the one before it. Version 3 added none: outcomes name their coder."""
