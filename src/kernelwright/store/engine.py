"""Opens a database for the store: transactions, waiting for other writers, the schema's version."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.pool import StaticPool

from kernelwright.core.errors import StoreError
from kernelwright.store import schema
from kernelwright.store.coders import NAMES_CODERS, name_coders

T = TypeVar("T")

BUSY_TIMEOUT_S = 30
"""How long SQLite itself waits for another writer before it gives up."""
_ATTEMPTS = 6


def open_database(where: Path | str) -> tuple[Engine, str]:
    """Open, create or upgrade the database; returns it with a name for messages that hides passwords.

    Raises:
        StoreError: not writable, not a database, of a newer schema version, or no driver.
    """
    url = _url(where)
    name = str(url.database) if _is_file(url) else url.render_as_string(hide_password=True)
    try:
        if _is_file(url):
            Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
        engine = _create_engine(url)
        with _closed_on_failure(engine):
            write(engine, lambda connection: _prepare(connection, name))
    except ModuleNotFoundError as error:
        raise StoreError(f"cannot open the store {name}: pip install {error.name}") from error
    except (OSError, exc.SQLAlchemyError) as error:
        raise StoreError(f"cannot open the store {name}: {reason(error)}") from error
    return engine, name


@contextmanager
def _closed_on_failure(engine: Engine) -> Iterator[None]:
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def write(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Do ``work`` in one transaction; again when another writer was in the way, and only then."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with engine.execution_options(writes=True).begin() as connection:
                return work(connection)
        except exc.DBAPIError as error:
            if attempt == _ATTEMPTS or not _is_contention(error):
                raise
        time.sleep(random.uniform(0.01, 0.05) * attempt)
    raise AssertionError("unreachable")


def reason(error: Exception) -> str:
    """Return the database's own words in one line."""
    cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    return " ".join(str(cause).split())


def _url(where: Path | str) -> URL:
    if isinstance(where, str) and "://" in where:
        try:
            return make_url(where)
        except exc.ArgumentError as error:
            raise StoreError(f"not a database URL: {where!r}") from error
    return URL.create("sqlite", database=str(Path(where).expanduser().absolute()))


def _is_file(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")


def _create_engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, pool_pre_ping=True)
    options = {"connect_args": {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}}
    if _is_file(url):
        engine = sa.create_engine(url, **options)
    else:
        # One connection: a second one would be a second, empty database.
        engine = sa.create_engine(url, poolclass=StaticPool, **options)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own transaction handling begins too late to make reading and writing one step.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_contention(error: exc.DBAPIError) -> bool:
    """Tell another writer's presence (SQLite: busy or locked; PostgreSQL: conflict) from real failures."""
    if isinstance(error.orig, sqlite3.OperationalError):
        return "locked" in str(error.orig) or "busy" in str(error.orig)
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    return state in {"40001", "40P01", "23505", "42P07"}


def _prepare(connection: Connection, name: str) -> None:
    """Create the tables in an empty database, or those that an older one lacks; refuse any other."""
    present = set(sa.inspect(connection).get_table_names())
    if "meta" in present:
        _upgrade(connection, _known_version(connection, name))
        return
    if present & set(schema.metadata.tables):
        raise StoreError(f"{name} is a database of something else; name another file with --store")
    schema.metadata.create_all(connection)
    version = {"key": "schema_version", "value": str(schema.SCHEMA_VERSION)}
    connection.execute(schema.meta.insert().values(version))


def _known_version(connection: Connection, name: str) -> int:
    """Return the database's version; raises StoreError when this code cannot read it."""
    query = sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema_version")
    found = connection.execute(query).scalar()
    readable = {str(version): version for version in range(1, schema.SCHEMA_VERSION + 1)}
    if found not in readable:
        raise StoreError(
            f"the store {name} has schema version {found or 'unknown'}, this kernelwright reads version "
            f"{schema.SCHEMA_VERSION} and older: name another store, or use the kernelwright that wrote it"
        )
    return readable[found]


def _upgrade(connection: Connection, found: int) -> None:
    """Add what the versions after ``found`` added."""
    if found == schema.SCHEMA_VERSION:
        return
    for version in range(found + 1, schema.SCHEMA_VERSION + 1):
        schema.metadata.create_all(connection, tables=schema.ADDED_IN.get(version, ()), checkfirst=False)
    if found < NAMES_CODERS:
        name_coders(connection)
    is_version = schema.meta.c.key == "schema_version"
    connection.execute(schema.meta.update().where(is_version).values(value=str(schema.SCHEMA_VERSION)))
