"""Scratch directories that are gone when their owner is, however it ended.

An owner that is killed with all its processes can remove nothing. Beside its directories lies a file that
it keeps locked while it lives; whoever needs a scratch directory next removes those of owners whose lock has
gone with them.
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
    """One owner's scratch directories, in the system's place for temporary files."""

    def __init__(self) -> None:
        self._lock: int | None = None
        self._owner = ""
        self._place = Path()

    def new_folder(self, inside: str | None = None) -> str:
        """Return a new, empty directory of this user; the first call clears up after owners that ended.

        It lies beside the others, or ``inside`` one of them.
        """
        if self._lock is None:
            self._begin()
        return tempfile.mkdtemp(prefix=f"{self._owner}-", dir=inside or self._place)

    @property
    def prefix(self) -> str:
        """How the names of this owner's directories begin."""
        if self._lock is None:
            self._begin()
        return f"{self._owner}-"

    def close(self) -> None:
        """Remove what directories are left, and give the lock back: without it nobody would find them."""
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
    """Remove the scratch directories of owners that have ended; by default in the system's place."""
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
    """Make and lock a file; None when somebody took it for an ended owner's before it was locked."""
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
