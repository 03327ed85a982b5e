"""Alembic's script directory: how a store of an older version becomes one of the next."""
