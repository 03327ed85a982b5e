"""The right to time on a device: one process at a time, whatever command it belongs to.

A lease is a lock on files, so a holder that is killed gives it back. Two files stand for every device: one of
this user, and one for all users of the machine. Another user may hold the second one for as long as it likes;
therefore a wait for it has an end, and timing then goes on beside the other user.

A third file is the turn of this user's processes: whoever waits for a device holds it. A process that gives
the device back and wants it again finds the turn taken, so one that times all the time lets others in.

filelock does not serve here: it opens every file to write, and another user's is only to be read.
"""

import contextlib
import errno
import fcntl
import json
import math
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kernelwright.machine import private_folder
from kernelwright.machine.topology import memory_nodes

Tell = Callable[[str], None]
"""Is told in one line what a process waits for."""
LOOK_S = 0.01
TELL_AFTER_S, TELL_AGAIN_S = 0.5, 30.0
OTHERS_S = 300.0
"""Longest wait for another user; longer than a timing should take."""
_MODE = 0o644
_given_up: set[Path] = set()
"""Files for all users for which the longest wait is over."""
_own = threading.local()
"""What each thread holds, in ``names``: a thread would wait for itself for ever."""


class DeviceLease:
    """A lease on one or more devices; a context manager. Not to be taken within another one."""

    def __init__(
        self, devices: Sequence[str], tell: Tell = lambda line: None, patience_s: float = math.inf
    ) -> None:
        """Take nothing yet.

        Args:
            devices: Their names. All processes that share a device must call it the same.
            tell: See ``Tell``; called while ``take`` waits.
            patience_s: Longest wait of ``take``, in seconds, before it raises StillLeased.
        """
        self._devices = sorted(set(devices))
        self._tell, self._patience_s = tell, patience_s
        self._files: list[int] = []
        self._names: set[str] | None = None
        """What the thread that took it holds; None: it is not taken."""
        self._before_wait: Callable[[], object] = lambda: None
        self._began = 0.0
        self.waited_s = 0.0
        """Seconds that the last ``take`` waited."""

    def take(self, before_wait: Callable[[], object] = lambda: None) -> None:
        """Wait until the devices are free; what is to be done before a wait is not done where there is none.

        All take the files in one order, the user's own of a device first, so that no two wait for each other.

        Raises:
            MachineError: there is no folder for the locks.
            StillLeased: the patience is over; nothing is held.
        """
        names: set[str] = _own.__dict__.setdefault("names", set())
        if both := names.intersection(self._devices):
            raise RuntimeError(f"{', '.join(sorted(both))}: this thread holds the lease already")
        self._before_wait = before_wait
        self._names = names
        names.update(self._devices)
        self._began = time.monotonic()
        try:
            for device in self._devices:
                self._take(device)
        except BaseException:
            self.release()
            raise
        self.waited_s = time.monotonic() - self._began

    def release(self) -> None:
        """Give the devices back; a second call does nothing."""
        while self._files:
            os.close(self._files.pop())
        if self._names is not None:
            self._names.difference_update(self._devices)
            self._names = None

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _take(self, device: str) -> None:
        folder = private_folder.private_folder()
        own = folder / f"device-{device}"
        turn = self._wait(folder / f"turn-{device}", device, None, own)
        file = self._wait(own, device, None, own)
        assert turn is not None and file is not None  # nobody else can keep us from our own files
        self._files.remove(turn)
        os.close(turn)
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "since": time.time()}).encode(), 0)
        shared = private_folder.SHARED / f".kernelwright-device-{device}"
        self._wait(shared, device, OTHERS_S if shared not in _given_up else 0.0, shared)

    def _wait(self, path: Path, device: str, limit_s: float | None, noted: Path) -> int | None:
        """Take one file; None where the time is over, or where another user has made it useless.

        ``noted`` is the file that names the process that has the device.
        """
        begin, told = time.monotonic(), 0.0
        while True:
            try:
                file = _locked(path, is_own=limit_s is None)
            except _Useless:
                return None
            waited = time.monotonic() - begin
            if file is not None:
                self._files.append(file)
                _given_up.discard(path)
                return file
            if limit_s is not None and waited >= limit_s:
                _given_up.add(path)
                return None
            if time.monotonic() - self._began >= self._patience_s:
                raise StillLeased(device)
            before, self._before_wait = self._before_wait, lambda: None
            before()
            if waited >= TELL_AFTER_S and (not told or waited - told >= TELL_AGAIN_S):
                told = waited
                self._tell(f"waiting for the device {device}: {_user_of(noted, is_own=limit_s is None)}")
            time.sleep(LOOK_S)


class _Useless(Exception):
    """A file for all users that cannot be locked."""


class StillLeased(Exception):
    """Somebody else has a device for longer than the patience lasts; names the device."""


def lease_processor(tell: Tell = lambda line: None, patience_s: float = math.inf) -> DeviceLease:
    """Return a lease on the memory nodes whose cores this process uses.

    Cores of one node share its memory, so a process on other cores of it would disturb.
    """
    return DeviceLease(processor_names(), tell, patience_s)


def processor_names() -> tuple[str, ...]:
    """Return what the memory nodes whose cores this process uses are called in leases."""
    return tuple(f"node{number}" for number in memory_nodes())


def _locked(path: Path, *, is_own: bool) -> int | None:
    """Return the locked file, None while somebody else has it; raises _Useless."""
    file = _open(path, is_own=is_own)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(file, path):
            return file
    except OSError as error:
        os.close(file)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise _Useless from error
    os.close(file)  # it was removed meanwhile: whoever comes next would lock another file
    return None


def _open(path: Path, *, is_own: bool) -> int:
    """Open the file, or make it; never through a link, and never to write to what is another user's."""
    common = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    for flags in ((os.O_RDWR if is_own else os.O_RDONLY), os.O_RDWR | os.O_CREAT | os.O_EXCL) * 2:
        try:
            file = os.open(path, flags | common, _MODE)
        except (FileNotFoundError, FileExistsError):
            continue  # made or removed by somebody between two tries
        except OSError as error:
            raise _Useless from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise _Useless
        if flags & os.O_CREAT:
            os.fchmod(file, _MODE)  # whatever the process's umask is
        return file
    raise _Useless


def _is_at(file: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        ours, there = os.fstat(file), os.lstat(path)
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
    return False


def _user_of(path: Path, *, is_own: bool) -> str:
    """Say who holds a file of this user."""
    if not is_own:
        return f"another user has it; no longer than {OTHERS_S:.0f} s"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        since = time.strftime("%H:%M:%S", time.localtime(float(known["since"])))
        return f"used by process {int(known['pid'])} since {since}"
    except (OSError, ValueError, KeyError, TypeError):
        return "used by another process"
