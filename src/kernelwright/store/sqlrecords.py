"""Reading and writing records: transactions, and failures in one clear line."""

import threading
from collections.abc import Callable
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


class SqlRecords:
    """An opened database. Each write is one transaction, each payload the JSON text of a noun."""

    def __init__(self, engine: Engine, name: str, *, read_only: bool = False) -> None:
        """Use an opened database; ``name`` is for messages."""
        self._engine = engine
        self._name = name
        self._read_only = read_only
        # One connection that all threads share serves one at a time.
        self._turn = threading.RLock() if isinstance(engine.pool, StaticPool) else nullcontext()

    def close(self) -> None:
        self._engine.dispose()

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


def exists(connection: Connection, condition: sa.ColumnElement[bool]) -> bool:
    """Tell whether some row fulfils the condition."""
    return bool(connection.execute(sa.select(sa.literal(1)).where(condition).limit(1)).first())
