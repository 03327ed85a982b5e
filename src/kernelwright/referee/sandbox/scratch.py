"""Scratch directories that do not outlive their owner for long, however the owner ended.

An owner that is killed with all its processes cannot remove its directories. Every owner therefore keeps a
lock on a file beside its directories while it lives. The next owner that needs a scratch directory removes
the directories of all owners whose lock is free.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from pathlib import Path

PREFIX = "kernelwright-"
LOCK_SUFFIX = ".lock"


class ScratchSpace:
    """One owner's scratch directories, in the system's folder for temporary files."""

    def __init__(self) -> None:
        self._lock: int | None = None
        self._owner = ""
        self._place = Path()

    def new_folder(self, inside: str | None = None) -> str:
        """Return a new, empty directory; the first call also removes those of owners that have ended.

        The directory lies beside the owner's others, or ``inside`` one of them.
        """
        if self._lock is None:
            self._begin()
        return tempfile.mkdtemp(prefix=f"{self._owner}-", dir=inside or self._place)

    @property
    def prefix(self) -> str:
        """Prefix of the names of this owner's directories."""
        if self._lock is None:
            self._begin()
        return f"{self._owner}-"

    def close(self) -> None:
        """Remove the remaining directories, then the lock file, by which others would find them."""
        if self._lock is not None:
            _remove_folders(self._place, self._owner)
            _lock_file(self._place, self._owner).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _begin(self) -> None:
        self._place = Path(tempfile.gettempdir())
        clear_up(self._place)
        while self._lock is None:
            self._owner = PREFIX + secrets.token_hex(4)
            self._lock = _take_lock(_lock_file(self._place, self._owner))


def clear_up(place: Path | None = None) -> None:
    """Remove the scratch directories of owners that have ended, by default in the temporary folder."""
    place = place or Path(tempfile.gettempdir())
    for lock in place.glob(f"{PREFIX}*{LOCK_SUFFIX}"):
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # another user's, or removed meanwhile
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its owner lives
            continue
        else:
            _remove_folders(place, lock.name.removesuffix(LOCK_SUFFIX))
            with contextlib.suppress(OSError):
                lock.unlink()
        finally:
            os.close(handle)


def _remove_folders(place: Path, owner: str) -> None:
    for folder in place.glob(f"{owner}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _take_lock(path: Path) -> int | None:
    """Create and lock a file; None when another process removed it before it was locked."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink:
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def _lock_file(place: Path, owner: str) -> Path:
    return place / f"{owner}{LOCK_SUFFIX}"
