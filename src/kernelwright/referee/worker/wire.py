"""Length-prefixed JSON over a socket, with file descriptors. No pickle in either direction."""

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

HEADER = struct.Struct("<I")
MAX_BYTES = 64 * 1024 * 1024
"""Longest message that either side accepts; sources and layouts are far shorter."""
MAX_FDS = 8
NONCE = "nonce"
"""Field of a command that its answer repeats: what was sent before the command cannot pass for its answer."""


class Closed(Exception):
    """The other end is gone."""


class Late(Exception):
    """No complete message arrived before the deadline."""


class MalformedMessage(Exception):
    """The other end sent something that is not a message."""


def send(sock: socket.socket, message: Message, fds: Sequence[int] = ()) -> None:
    """Send one message; raises Closed when the other end is gone, Late when it does not read in time."""
    data = json.dumps(message).encode()
    try:
        if fds:
            socket.send_fds(sock, [HEADER.pack(len(data))], list(fds))
            sock.sendall(data)
        else:
            sock.sendall(HEADER.pack(len(data)) + data)
    except TimeoutError as error:
        raise Late from error
    except OSError as error:
        raise Closed from error


def receive(sock: socket.socket, timeout_s: float | None = None, max_bytes: int = MAX_BYTES) -> Message:
    """Return the next message, dropping descriptors; raises Closed, Late or Malformed."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    return _body(sock, _exactly(sock, HEADER.size, deadline), deadline, max_bytes)


def receive_with_fds(sock: socket.socket) -> tuple[Message, list[int]]:
    """Return the next message and the descriptors that came with it; waits without limit."""
    try:
        header, fds, _, _ = socket.recv_fds(sock, HEADER.size, MAX_FDS)
    except OSError as error:
        raise Closed from error
    if not header:
        raise Closed
    header += _exactly(sock, HEADER.size - len(header), None)
    return _body(sock, header, None), fds


def _body(sock: socket.socket, header: bytes, deadline: float | None, max_bytes: int = MAX_BYTES) -> Message:
    (size,) = HEADER.unpack(header)
    if size > max_bytes:
        raise MalformedMessage(f"a message of {size} bytes")
    try:
        message = json.loads(_exactly(sock, size, deadline))
    except (ValueError, RecursionError) as error:
        raise MalformedMessage("not JSON") from error
    if not isinstance(message, dict):
        raise MalformedMessage("not a JSON object")
    return message


def _exactly(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    chunks: list[bytes] = []
    missing = size
    while missing:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Late
            sock.settimeout(left)
        try:
            chunk = sock.recv(min(missing, 1 << 20))
        except TimeoutError as error:
            raise Late from error
        except OSError as error:
            raise Closed from error
        if not chunk:
            raise Closed
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)
