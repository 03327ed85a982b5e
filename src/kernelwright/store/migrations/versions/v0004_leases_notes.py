"""Version 4: leases of runs, the Librarian's notes and the last transaction of each writer."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "leases",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("token", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("taken_at", sa.String(32), nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "notes",
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_table(
        "writers",
        sa.Column("writer", sa.String(32), primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
    )
