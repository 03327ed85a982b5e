"""Reading and writing records: transactions, and failures in one clear line."""

import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine, Row
from sqlalchemy.pool import StaticPool

from kernelwright.core.errors import StoreError
from kernelwright.store.engine import read, reason, write

T = TypeVar("T")

_BATCH = 400
"""Rows of two values a statement: SQLite once took 999 values."""


class SqlRecords:
    """An opened database. Each write is one transaction, each payload the JSON text of a noun."""

    def __init__(self, engine: Engine, name: str, *, read_only: bool = False) -> None:
        """Use an opened database; ``name`` is for messages."""
        self._engine = engine
        self._name = name
        self._read_only = read_only
        # One connection that all threads share serves one at a time.
        self._turn = threading.RLock() if isinstance(engine.pool, StaticPool) else nullcontext()
        self._close = weakref.finalize(self, engine.dispose)  # also where nobody calls close

    def close(self) -> None:
        self._engine.dispose()

    def rows(self, query: sa.Executable) -> list[Row[Any]]:
        """Return the rows of a query, for modules of this package."""
        return self._read(query)

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction, for modules of this package."""
        return self._write(work)

    def parsed(self, parse: Callable[[str], T], payload: str) -> T:
        """Read a payload, for modules of this package; raises StoreError where it does not parse."""
        return self._parse(parse, payload)

    def _read(self, query: sa.Executable) -> list[Row[Any]]:
        try:
            with self._turn:
                return read(self._engine, query)
        except exc.SQLAlchemyError as error:
            raise StoreError(f"cannot read the store {self._name}: {self._reason(error)}") from error

    def _write(self, work: Callable[[Connection], T]) -> T:
        if self._read_only:
            raise StoreError(f"cannot write the store {self._name}: it was opened for reading")
        try:
            with self._turn:
                return write(self._engine, work, waits_for_server=True)
        except exc.SQLAlchemyError as error:
            raise StoreError(f"cannot write the store {self._name}: {self._reason(error)}") from error

    def _reason(self, error: Exception) -> str:
        return reason(error, self._engine.url)

    def _parse(self, parse: Callable[[str], T], payload: str) -> T:
        try:
            return parse(payload)
        except ValidationError as error:
            first = str(error.errors()[0]["msg"])
            raise StoreError(f"the store {self._name} holds a record that does not parse: {first}") from error


def insert(connection: Connection, table: sa.Table, row: dict[str, Any]) -> int:
    """Insert a row and return its number."""
    inserted = connection.execute(table.insert().values(row)).inserted_primary_key
    return int(inserted[0]) if inserted is not None else 0


def batched(items: Collection[T], size: int = _BATCH) -> Iterator[list[T]]:
    """Yield the items in pieces that fit one statement of every database."""
    ordered = list(items)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def read_notes(
    connection: Connection, table: sa.Table, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """Return the texts of a table under these topics and names, as far as there are any."""
    found: dict[tuple[str, str], str] = {}
    for some in batched(keys):
        query = sa.select(table).where(sa.tuple_(table.c.topic, table.c.name).in_(some))
        found |= {(row.topic, row.name): row.payload for row in connection.execute(query)}
    return found


def write_notes(connection: Connection, table: sa.Table, written: Mapping[tuple[str, str], str]) -> None:
    """Write texts under topics and names, in place of those that are there."""
    for some in batched(written):
        connection.execute(table.delete().where(sa.tuple_(table.c.topic, table.c.name).in_(some)))
        rows = [{"topic": key[0], "name": key[1], "payload": written[key]} for key in some]
        connection.execute(table.insert(), rows)


def exists(connection: Connection, condition: sa.ColumnElement[bool]) -> bool:
    """Tell whether some row fulfils the condition."""
    return bool(connection.execute(sa.select(sa.literal(1)).where(condition).limit(1)).first())
