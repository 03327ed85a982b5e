"""The PID handshake: a child's first message, which tells the receiver the child's process id.

The kernel attaches the sender's id, translated into the receiver's process table. The child may be in another
table, and it cannot forge the id.
"""

import socket
import struct
from typing import Final

READY: Final = b"ready"
_CONFINED_S = 120.0
_CREDENTIALS = struct.Struct("3i")


def listening_pair() -> tuple[socket.socket, socket.socket]:
    """Return the ends of who listens and of who says one word."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def first_word(report: socket.socket) -> tuple[int, str]:
    """Return the id of the process that reports, as it is called here, and what is wrong with it."""
    report.settimeout(_CONFINED_S)
    try:
        data, extra, _, _ = report.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
    except TimeoutError:
        return 0, "it was not ready in time"
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid, _, _ = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])
            if pid:
                return pid, "" if data == READY else data.decode(errors="replace")
    return 0, "it ended without a word"


def say_ready(report: int) -> None:
    """Say that all is well to who listens at the other end of a descriptor, and close it."""
    with socket.socket(fileno=report) as sock:
        sock.send(READY)
