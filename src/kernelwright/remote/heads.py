"""Heads of HTTP requests as they come in, checked before the HTTP library reads them.

The library joins what a proxy in front may read in another way: two lengths, a length beside chunks, two
tokens. Whoever reads such a request differently lets one client speak for another, so it is refused. What
follows a body of chunks is not read: its end is the library's to find.
"""

import re
from dataclasses import dataclass

MAX_HEAD_BYTES = 16_384
"""Of one request line with its headers; ours."""
_END = re.compile(rb"\n\r?\n")
_ONCE = (b"content-length", b"transfer-encoding", b"authorization", b"host", b"origin", b"content-type")
_DIGITS = re.compile(rb"[0-9]{1,15}")


@dataclass(frozen=True)
class HeadProblem:
    """Why a request is refused."""

    status: int
    line: str


class Heads:
    """Follows the bytes of one connection."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._body_left = 0
        self.n_read = 0
        """Heads that are complete."""
        self.is_last = False
        """True when no further request of this connection is to be answered."""

    @property
    def is_inside(self) -> bool:
        """True while part of a head has come and the rest has not."""
        return bool(self._head)

    def feed(self, data: bytes) -> HeadProblem | None:
        """Read on; return why the request is to be refused."""
        while data and not self.is_last:
            if self._body_left:
                taken = min(self._body_left, len(data))
                self._body_left -= taken
                data = data[taken:]
                continue
            begun = len(self._head)
            self._head += data
            end = _END.search(self._head, max(begun - 2, 0))
            if (end.end() if end else len(self._head)) > MAX_HEAD_BYTES:
                return HeadProblem(431, f"the headers have more than {MAX_HEAD_BYTES} bytes")
            if end is None:
                return None
            data = data[end.end() - begun :]
            problem = self._read(bytes(self._head[: end.end()]))
            self._head.clear()
            if problem is not None:
                return problem
        return None

    def _read(self, head: bytes) -> HeadProblem | None:
        lines = head.split(b"\n")[1:]
        if any(line[:1] in (b" ", b"\t") for line in lines):
            return HeadProblem(400, "a header goes on in a second line; write it in one")
        found: dict[bytes, list[bytes]] = {}
        for line in lines:
            name, _, value = line.partition(b":")
            found.setdefault(name.strip().lower(), []).append(value.strip())
        for name in _ONCE:
            if len(found.get(name, ())) > 1:
                return HeadProblem(400, f"the header {name.decode()} comes twice; send it once")
        length = found.get(b"content-length", [b"0"])[0]
        if b"transfer-encoding" in found:
            if b"content-length" in found:
                return HeadProblem(400, "Content-Length and Transfer-Encoding together; send one of them")
            self.is_last = True
        elif not _DIGITS.fullmatch(length):
            return HeadProblem(400, "the header content-length is no number of bytes")
        self._body_left = int(length) if not self.is_last else 0
        self.n_read += 1
        return None
