"""The store that a command is about."""

from typing import TYPE_CHECKING

import typer

from kernelwright.core.errors import KernelwrightError
from kernelwright.settings import load_settings

if TYPE_CHECKING:
    from kernelwright.store.base import Store

N_COMPLETED = 100
"""Newest runs that a shell is offered."""


def open_store(where: str | None) -> "Store":
    """Open the store that the user named, or the configured one; raises StoreError."""
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store import sqlstore

    return sqlstore.open_store(where or load_settings().store)


def open_for_reading(where: str | None) -> "Store":
    """Open a store to look at it; where the configured one is not there yet, an empty one stands for it.

    Raises:
        StoreError: the store that was named is not there, or cannot be read.
    """
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store import reading

    return reading.open_for_reading(where or load_settings().store, must_exist=where is not None)


def newest_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the newest runs whose ids begin so, for a shell that completes one."""
    try:
        store = open_for_reading(ctx.params.get("store"))
        newest = store.newest_runs(N_COMPLETED)
    except KernelwrightError:  # a shell that completes words has no place for messages
        return []
    return [(r.run_id, r.spec.task.name) for r in newest if r.run_id.startswith(incomplete)]
