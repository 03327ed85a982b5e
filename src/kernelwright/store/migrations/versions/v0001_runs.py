"""Version 1: runs, events, candidates and outcomes."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(32), primary_key=True),
        sa.Column("experiment", sa.Text),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
    )
    op.create_index("ix_runs_experiment", "runs", ["experiment"])
    op.create_index("ix_runs_created_at", "runs", ["created_at"])
    op.create_table(
        "events",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("candidate", sa.String(32)),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_index("events_by_candidate", "events", ["run_id", "kind", "candidate"])
    op.create_table(
        "candidates",
        sa.Column("candidate_id", sa.String(32), primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
    )
    op.create_table(
        "run_candidates",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("candidate_id", sa.String(32), sa.ForeignKey("candidates.candidate_id"), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_index("ix_run_candidates_candidate_id", "run_candidates", ["candidate_id"])
    op.create_index("run_candidates_once", "run_candidates", ["run_id", "candidate_id"], unique=True)
    op.create_table(
        "outcomes",
        sa.Column("outcome_id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
