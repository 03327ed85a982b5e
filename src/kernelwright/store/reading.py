"""A store to look at: nothing is written, and nobody is waited for."""

from kernelwright.core.errors import StoreError
from kernelwright.store import sqlstore, versions
from kernelwright.store.base import Store


def open_for_reading(where: str, *, must_exist: bool) -> Store:
    """Open a store to look at it.

    An older store is upgraded first, where it may be written.

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
            raise older from None
        return sqlstore.open_store(where, read_only=True)
