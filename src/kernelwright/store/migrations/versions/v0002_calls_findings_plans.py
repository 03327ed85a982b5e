"""Version 2: calls to models, findings and archived plans."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "model_calls",
        sa.Column("call_id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_model_calls_run_id", "model_calls", ["run_id"])
    op.create_table(
        "findings",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("finding_id", sa.String(32), nullable=False, unique=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_table(
        "plans",
        sa.Column("plan_id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("best_source", sa.String(32), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("plans_once", "plans", ["run_id", "best_source"], unique=True)
