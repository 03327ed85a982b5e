"""Which version a database is of: created when empty, upgraded when older, refused when newer or not ours."""

import threading
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kernelwright.core.errors import StoreError
from kernelwright.store import schema

CURRENT = schema.SCHEMA_VERSION
MIGRATIONS = Path(__file__).with_name("migrations")
"""Alembic's script directory; revision ``0002`` makes version 2 out of version 1."""
_OURS = {"meta", "runs", "events", "candidates", "outcomes"}
"""Tables that every version has had."""
_ALEMBIC_LOCK = threading.Lock()
"""Alembic keeps what it is working on in module variables."""


class StoreMissing(StoreError):
    """There is no store there, and one that is opened for reading is not created."""


class StoreOlder(StoreError):
    """The store is of an older version, and one that is opened for reading is not upgraded."""


def find(connection: Connection, name: str) -> int | None:
    """Return the version of the store in a database, None for an empty database; changes nothing.

    Raises:
        StoreError: it holds something else, or a version that this code cannot read.
    """
    present = set(sa.inspect(connection).get_table_names())
    if not present:
        return None
    if not present >= _OURS:
        raise StoreError(f"{name} is a database of something else, left as it is; name another with --store")
    query = sa.select(schema.meta.c.value).where(schema.meta.c.key == schema.VERSION_KEY)
    found = connection.execute(query).scalar()
    readable = {str(version): version for version in range(1, CURRENT + 1)}
    if found not in readable:
        raise StoreError(
            f"the store {name} has schema version {found or 'unknown'}, this kernelwright reads version "
            f"{CURRENT} and older: name another store, or use the kernelwright that wrote it"
        )
    return readable[found]


def require_current(found: int | None, name: str) -> None:
    """Raise StoreError where a database cannot be read as it is."""
    if found is None:
        raise StoreMissing(f"there is no store in {name}; kernelwright optimize FILE creates one")
    if found != CURRENT:
        raise StoreOlder(
            f"the store {name} has schema version {found}, this kernelwright reads version {CURRENT}: "
            "run any command with write access to it once, that upgrades it"
        )


def prepare(connection: Connection, name: str) -> None:
    """Bring a database to the current version, within a transaction that writes."""
    found = find(connection, name)
    if found is None:
        _create(connection)
    elif found != CURRENT:
        with _ALEMBIC_LOCK:
            upgrade(connection, found)


def _create(connection: Connection) -> None:
    """Create all tables at once: what the revisions come to, one after the other (held by a test)."""
    schema.metadata.create_all(connection)
    connection.execute(schema.meta.insert().values(key=schema.VERSION_KEY, value=str(CURRENT)))
    connection.execute(schema.alembic_version.insert().values(version_num=f"{CURRENT:04}"))


def upgrade(connection: Connection, found: int) -> None:
    """Run the revisions after version ``found``; 0: from nothing."""
    # lazy: only an older store needs Alembic, which takes a while to load
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    if found and not sa.inspect(connection).has_table(schema.alembic_version.name):
        command.stamp(config, f"{found:04}")
    command.upgrade(config, "head")
    connection.execute(schema.meta.delete().where(schema.meta.c.key == schema.VERSION_KEY))
    connection.execute(schema.meta.insert().values(key=schema.VERSION_KEY, value=str(CURRENT)))
