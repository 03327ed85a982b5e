"""Reading and writing records: transactions, and failures in one clear line."""

from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine, Row

from kernelwright.core.errors import StoreError
from kernelwright.store.engine import reason, write

T = TypeVar("T")


class SqlRecords:
    """An opened database. Each write is one transaction, each payload the JSON text of a noun."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Use an opened database; ``name`` is for messages."""
        self._engine = engine
        self._name = name

    def close(self) -> None:
        self._engine.dispose()

    def _read(self, query: sa.Executable) -> list[Row[Any]]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(query).all())
        except exc.SQLAlchemyError as error:
            raise StoreError(f"cannot read the store {self._name}: {reason(error)}") from error

    def _write(self, work: Callable[[Connection], T]) -> T:
        try:
            return write(self._engine, work)
        except exc.SQLAlchemyError as error:
            raise StoreError(f"cannot write the store {self._name}: {reason(error)}") from error

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
