"""A store to look at: nothing is written, and nobody is waited for."""

import shutil
import sqlite3
import tempfile
import weakref
from contextlib import closing
from pathlib import Path

from kernelwright.core.errors import StoreError
from kernelwright.store import sqlstore, versions
from kernelwright.store.address import is_file, parse_address, shown_address
from kernelwright.store.base import Store
from kernelwright.store.engine import connect_to_read, open_database


def open_for_reading(where: str, *, must_exist: bool) -> Store:
    """Open a store to look at it.

    An older store is upgraded first, where it may be written; of a file that may not, a copy is.

    Args:
        where: path of a SQLite file, or an SQLAlchemy URL.
        must_exist: False: an empty store stands for one that is not there.

    Raises:
        StoreError: the store is not there, or cannot be read.
    """
    try:
        return sqlstore.open_store(where, read_only=True)
    except versions.StoreMissing:
        if must_exist:
            raise
        return sqlstore.open_store("sqlite://")
    except versions.StoreOlder as older:
        try:
            sqlstore.open_store(where).close()
        except StoreError:
            return _upgraded_copy(where, older)
        return sqlstore.open_store(where, read_only=True)


def _upgraded_copy(where: str, older: versions.StoreOlder) -> Store:
    """Return an older file's copy, upgraded and opened for reading; it is deleted with the store.

    Raises:
        StoreOlder: it is no file, or cannot be copied.
    """
    url = parse_address(where)
    if not is_file(url):
        raise older from None
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-store-"))
    copy = folder / "copy.db"
    try:
        with (
            closing(connect_to_read(Path(str(url.database)))) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
        sqlstore.open_store(copy).close()
        engine, _ = open_database(copy, read_only=True)
    except (OSError, sqlite3.Error, StoreError):
        shutil.rmtree(folder, ignore_errors=True)
        raise older from None
    store = sqlstore.SqlStore(engine, shown_address(url), read_only=True)
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store
