"""The tables. Payloads are the JSON text of the nouns; columns are only what queries need."""

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = 5
"""Raised whenever a table or a stored noun changes so that older or newer code would misread it.

The version is in ``meta``, where every kernelwright since the first looks for it. A new version comes with a
revision in ``migrations/versions``, named by its number in four digits, and with the same change here.
"""
VERSION_KEY = "schema_version"
"""Its key in ``meta``."""

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
    # Hashes of what was asked and of the machine it was asked on (store/keys.py), to find runs by.
    Column("question", String(32)),
    Column("machine", String(32)),
    Index("runs_by_question", "question", "created_at"),
    Index("runs_by_machine", "machine", "state"),
    Index("runs_by_experiment", "experiment", "created_at"),
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
    Column("run_id", String(32), nullable=False, index=True),
    Column("payload", Text, nullable=False),
    sqlite_autoincrement=True,
)

tallies = Table(
    "tallies",
    metadata,
    # Sums over all outcomes (core/tally.py), kept up to date with them: nobody has to read them all.
    Column("topic", String(16), primary_key=True),
    # Hash of the key, which the payload begins with.
    Column("name", String(32), primary_key=True),
    Column("payload", Text, nullable=False),
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
    # The plan's own fields; ``signature`` is the hash of the one that it has.
    Column("target", Text),
    Column("signature", String(32)),
    Column("speedup", Float),
    Index("plans_once", "run_id", "best_source", unique=True),
    Index("plans_by_signature", "target", "signature", "speedup"),
    sqlite_autoincrement=True,
)

leases = Table(
    "leases",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    # Grows with every owner: what an earlier one still writes is known by its smaller number.
    Column("token", Integer, nullable=False),
    # JSON of the owner; NULL when the run is free.
    Column("owner", Text),
    Column("taken_at", String(32), nullable=False),
    Column("expires_at", String(32), nullable=False),
)

notes = Table(
    "notes",
    metadata,
    # What the Librarian has counted so far; made anew from outcomes and plans whenever that is wanted.
    Column("topic", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("payload", Text, nullable=False),
)

writers = Table(
    "writers",
    metadata,
    # The last transaction of each writing thread, by which it learns whether a lost commit was carried out.
    Column("writer", String(32), primary_key=True),
    Column("number", Integer, nullable=False),
)

alembic_version = Table(
    "alembic_version",
    metadata,
    # Alembic's own, as Alembic makes it.
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
