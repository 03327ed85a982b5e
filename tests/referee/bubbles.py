"""A way for a forked function into what ``bwrap`` makes: as if it had been forked in there."""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import NoReturn

import pytest

from kernelwright.referee.sandbox import bubblewrap
from kernelwright.referee.sandbox.processes import children_of
from kernelwright.referee.sandbox.view import View

_OWNER_OF = 0xB701
"""ioctl: the user namespace that a namespace belongs to."""
_KINDS = ("mnt", "pid", "net", "ipc", "uts")
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def wrapped(view: View, writable: Sequence[str], readable: Sequence[str] = ()) -> Iterator[int]:
    """Hold it open; gives the process 1 of in there, as it is called here."""
    program = bubblewrap.find()
    assert program is not None
    before = bubblewrap.wrap(program, view, writable, readable)
    held = subprocess.Popen(
        [*before, "sh", "-c", "echo ready; read -r nothing"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert held.stdout is not None and held.stdout.readline() == b"ready\n"
        (first,) = children_of(held.pid)
        if not _lets_in(first):
            pytest.skip("a bwrap that is set-user-id lets nobody in afterwards")
        yield first
    finally:
        os.killpg(held.pid, signal.SIGKILL)
        held.communicate()


def fork_into(first: int) -> None:
    """Return in a child that was forked in there; this process waits for it and ends as it ended."""
    _join(first)
    child = os.fork()
    if child:
        _end_as(child)


def _join(first: int) -> None:
    own = os.open(f"/proc/{first}/ns/user", os.O_RDONLY)
    others = [os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY) for kind in _KINDS]
    owner = fcntl.ioctl(others[0], _OWNER_OF)
    known = {os.stat("/proc/self/ns/user").st_ino}
    for descriptor in (owner, *others, own):
        number = os.fstat(descriptor).st_ino
        if number not in known and _LIBC.setns(descriptor, 0) < 0:
            raise OSError(ctypes.get_errno(), "setns")
        known.add(number)
        os.close(descriptor)


def _lets_in(first: int) -> bool:
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            _join(first)
            os._exit(0)
        os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _end_as(child: int) -> NoReturn:
    for descriptor in range(3, 256):  # its own end must hang them up, not ours
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))
