"""Opens a database for the store: transactions, waiting for other writers and for a server that restarts."""

import os
import random
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.pool import QueuePool, StaticPool

from kernelwright.core.errors import StoreError
from kernelwright.store import versions
from kernelwright.store.address import is_file, parse_address, shown_address, without_passwords
from kernelwright.store.schema import writers

T = TypeVar("T")

BUSY_TIMEOUT_S = 30
"""How long SQLite itself waits for another writer before it gives up."""
SERVER_WAIT_S = 180.0
"""How long reading and writing wait for a database server that has gone away; as long as for a lock."""
_ATTEMPTS = 6
_CONNECT_TIMEOUT_S = 10
_GONE = {"57P01", "57P02", "57P03", "08000", "08001", "08003", "08004", "08006"}
"""PostgreSQL's words for a server that stops, starts or is not there."""
_WAL = b"\x02\x02"
"""Bytes 18 and 19 of an SQLite file that keeps its newest pages in a second file."""


def open_database(where: Path | str, *, read_only: bool = False) -> tuple[Engine, str]:
    """Open a database; returns it with a name for messages that hides passwords.

    For writing it is created or upgraded where that is needed. For reading nothing is written, nor is a
    write transaction begun.

    Raises:
        StoreError: not a store of ours, of a newer version, not writable, no driver, or, for reading, not
            there or of an older version. Nothing was changed.
    """
    url = parse_address(where)
    name = shown_address(url)
    patience = _Patience(waits_for_server=False)
    while True:
        try:
            return (_open_to_read(url, name) if read_only else _open_to_write(url, name)), name
        except ModuleNotFoundError as error:
            raise StoreError(f"cannot open the store {name}: {_missing_driver(url, error)}") from error
        except (OSError, exc.SQLAlchemyError, sqlite3.Error) as error:
            if not patience.helps(error):
                raise StoreError(f"cannot open the store {name}: {reason(error, url)}") from error


def _open_to_read(url: URL, name: str) -> Engine:
    if is_file(url) and not Path(str(url.database)).exists():
        raise versions.StoreMissing(f"there is no store at {name}; kernelwright optimize FILE creates one")
    if is_file(url):
        _look(Path(str(url.database)), name)
    engine = _create_engine(url, read_only=True)
    with _closed_on_failure(engine):
        if url.get_backend_name() == "sqlite" and not is_file(url):
            write(engine, lambda connection: versions.prepare(connection, name))
            return engine
        with engine.connect() as connection:
            versions.require_current(versions.find(connection, name), name)
    return engine


def _open_to_write(url: URL, name: str) -> Engine:
    if is_file(url):
        path = Path(str(url.database))
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.stat().st_size:
            _look(path, name)
            is_effective = os.access in os.supports_effective_ids
            if not all(os.access(p, os.W_OK, effective_ids=is_effective) for p in (path, path.parent)):
                raise StoreError(f"the store {name} is read-only; name another with --store")
    engine = _create_engine(url)
    with _closed_on_failure(engine):
        with engine.connect() as connection:
            found = versions.find(connection, name)
        if found != versions.CURRENT:
            write(engine, lambda connection: versions.prepare(connection, name))
    return engine


def _look(path: Path, name: str) -> None:
    """Raise StoreError for a file that is no store of ours, and leave no trace in it or beside it."""
    with path.open("rb") as file:
        is_shared = file.read(20)[18:] == _WAL
    if is_shared and not _has_log(path):
        # Connecting as usual would make files beside a database that may be somebody else's.
        try:
            _find_with(path, "mode=ro&immutable=1", name)
            return
        except (StoreError, sqlite3.Error, exc.SQLAlchemyError):
            if not _has_log(path):
                raise
    _find_with(path, "mode=ro", name)


def _find_with(path: Path, options: str, name: str) -> None:
    engine = sa.create_engine("sqlite://", creator=lambda: _connect_with(path, options), poolclass=QueuePool)
    try:
        with engine.connect() as connection:
            versions.find(connection, name)
    finally:
        engine.dispose()


def _has_log(path: Path) -> bool:
    """Tell whether a writer has the file open, or left pages beside it that are not in it yet."""
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0


@contextmanager
def _closed_on_failure(engine: Engine) -> Iterator[None]:
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def write(engine: Engine, work: Callable[[Connection], T], *, waits_for_server: bool = False) -> T:
    """Do ``work`` in one transaction, once.

    It is done again when another writer was in the way, and, with ``waits_for_server``, when the server went
    away. A commit whose answer was lost is never repeated: the transaction has left a mark if it was carried
    out.
    """
    patience = _Patience(waits_for_server)
    is_marked = waits_for_server and engine.dialect.name == "postgresql"
    mark = _next_mark()
    done: tuple[T] | None = None
    """The result of a transaction that was asked to commit and whose end is not known."""
    while True:
        try:
            with engine.execution_options(writes=True).connect() as connection:
                if done is not None and _has_mark(connection, mark):
                    return done[0]
                done = None
                result = work(connection)
                if is_marked:
                    _leave_mark(connection, mark)
                    done = (result,)
                connection.commit()
                return result
        except exc.DBAPIError as error:
            if not _is_lost(error):
                done = None  # the server answered: it did not commit
            patience.wait(error)


def read(engine: Engine, query: sa.Executable) -> list[sa.engine.Row[Any]]:
    """Return the rows of a query, waiting for a server that went away."""
    patience = _Patience(waits_for_server=True)
    while True:
        try:
            with engine.connect() as connection:
                return list(connection.execute(query).all())
        except exc.DBAPIError as error:
            if not _is_lost(error):
                raise
            patience.wait(error)


class _Patience:
    """Waits between attempts; raises what it is given when waiting is of no use or has taken too long."""

    def __init__(self, waits_for_server: bool) -> None:
        self._waits_for_server = waits_for_server
        self._attempts = 0
        self._gone_since: float | None = None

    def helps(self, error: Exception) -> bool:
        """Wait and return True where another attempt may succeed, such as one beside who creates a store."""
        try:
            if isinstance(error, exc.DBAPIError):
                self.wait(error)
                return True
        except exc.DBAPIError:
            pass
        return False

    def wait(self, error: exc.DBAPIError) -> None:
        if self._waits_for_server and _is_lost(error):
            now = time.monotonic()
            self._gone_since = self._gone_since or now
            if now - self._gone_since > SERVER_WAIT_S:
                raise error
            time.sleep(random.uniform(0.2, 1.0))
            return
        self._attempts += 1
        if self._attempts == _ATTEMPTS or not _is_contention(error):
            raise error
        time.sleep(random.uniform(0.01, 0.05) * self._attempts)


class _Mark(NamedTuple):
    """One transaction of one thread of one process."""

    writer: str
    number: int


_THREAD = threading.local()


def _next_mark() -> _Mark:
    pid = os.getpid()
    if getattr(_THREAD, "pid", None) != pid:
        _THREAD.pid, _THREAD.writer, _THREAD.number = pid, uuid.uuid4().hex, 0
    _THREAD.number += 1
    return _Mark(_THREAD.writer, _THREAD.number)


def _leave_mark(connection: Connection, mark: _Mark) -> None:
    """Note the transaction in the transaction; a thread's newer mark replaces its older one."""
    row = writers.insert().values(mark._asdict())
    if mark.number > 1:
        changed = connection.execute(
            writers.update().where(writers.c.writer == mark.writer).values(number=mark.number)
        )
        if changed.rowcount:
            return
    connection.execute(row)


def _has_mark(connection: Connection, mark: _Mark) -> bool:
    query = sa.select(writers.c.number).where(writers.c.writer == mark.writer)
    return bool(connection.execute(query).scalar() == mark.number)


def reason(error: Exception, url: URL) -> str:
    """Return the database's own words in one line, without passwords."""
    cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    return without_passwords(" ".join(str(cause).split()), url)


def _missing_driver(url: URL, error: ModuleNotFoundError) -> str:
    if url.get_backend_name() == "postgresql":
        return "PostgreSQL needs its driver; pip install 'kernelwright[postgres]'"
    return f"pip install {error.name}"


def _create_engine(url: URL, *, read_only: bool = False) -> Engine:
    if url.get_backend_name() == "postgresql":
        timeout = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_TIMEOUT_S}
        options = {"postgresql_readonly": True} if read_only else {}
        return sa.create_engine(url, pool_pre_ping=True, connect_args=timeout, execution_options=options)
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, pool_pre_ping=True)
    if is_file(url) and read_only:
        path = Path(str(url.database))
        engine = sa.create_engine("sqlite://", creator=lambda: connect_to_read(path), poolclass=QueuePool)
        event.listen(engine, "begin", _on_begin)
        return engine
    arguments = {"connect_args": {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}}
    if is_file(url):
        engine = sa.create_engine(url, **arguments)
    else:
        # One connection: a second one would be a second, empty database.
        engine = sa.create_engine(url, poolclass=StaticPool, **arguments)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Connect to a file that is never written, where need be in a folder that cannot be either.

    SQLite shares a file with writers through two more files beside it. Where they can be neither found nor
    made and no writer has left anything there, the file alone is read as it is.
    """
    try:
        return _connect_with(path, "mode=ro")
    except sqlite3.OperationalError as error:
        is_denied = error.sqlite_errorname in ("SQLITE_READONLY_DIRECTORY", "SQLITE_CANTOPEN")
        if not is_denied or not path.is_file() or _has_log(path):
            raise
        return _connect_with(path, "mode=ro&immutable=1")


def _connect_with(path: Path, options: str) -> sqlite3.Connection:
    where = f"file:{quote(str(path))}?{options}"
    connection = sqlite3.connect(where, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    connection.isolation_level = None
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own transaction handling begins too late to make reading and writing one step.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_lost(error: exc.DBAPIError) -> bool:
    """Tell a server that has gone away, or is not there yet, from one that says no."""
    if isinstance(error.orig, sqlite3.Error):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if error.connection_invalidated or state in _GONE:
        return True
    return state is None and isinstance(error, exc.OperationalError)


def _is_contention(error: exc.DBAPIError) -> bool:
    """Tell another writer's presence (SQLite: busy or locked; PostgreSQL: conflict) from real failures."""
    if isinstance(error.orig, sqlite3.OperationalError):
        return "locked" in str(error.orig) or "busy" in str(error.orig)
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    return state in {"40001", "40P01", "23505", "42P07"}
