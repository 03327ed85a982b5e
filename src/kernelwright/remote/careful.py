"""uvicorn's connection with limits on clients that wait, and on requests that can be read in two ways."""

import asyncio
import weakref
from collections import OrderedDict

from kernelwright.core.errors import missing
from kernelwright.remote.heads import HeadProblem, Heads
from kernelwright.remote.records import Refusal

try:
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise missing(error, "serve") from error

HEAD_S = 10.0
"""Seconds for a whole head, from the connection's begin or the last answer; ours."""
BODY_S = 60.0
"""Seconds for the rest of a body whose head has come; ours."""
MAX_WITHOUT_HEAD = 64
"""Connections that may be open without a whole head; one more ends the one that has waited for longest."""
_REASONS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}


_Waiting = OrderedDict["CarefulConnection", None]
_waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = weakref.WeakKeyDictionary()
"""Connections without a whole head, by the loop that serves them, the oldest first."""


class CarefulConnection(H11Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        self._heads = Heads()
        self._late: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Check heads, then hand the bytes on."""
        n_before = self._heads.n_read
        problem = self._heads.feed(data)
        if problem is not None:
            self._refuse(problem)
            return
        if self._heads.n_read > n_before:
            self._stop_waiting()
            self._late = self.loop.call_later(BODY_S, self._end_late_body)
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next head, or end after a request whose end is not known."""
        if self._heads.is_last:
            self.transport.close()
        super().on_response_complete()
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(HEAD_S, self.transport.abort)
        waiting = _waiting.setdefault(self.loop, OrderedDict())
        waiting[self] = None
        while len(waiting) > MAX_WITHOUT_HEAD:
            oldest, _ = waiting.popitem(last=False)
            oldest.transport.abort()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
        _waiting.get(self.loop, OrderedDict()).pop(self, None)

    def _end_late_body(self) -> None:
        """Answer and close where the body has not come whole; an answer that has begun breaks off."""
        if self.cycle is None or not self.cycle.more_body or self.cycle.response_complete:
            return
        if self.cycle.response_started:
            self.transport.abort()
            return
        self._write(HeadProblem(408, f"the body did not come within {BODY_S:.0f} s"))

    def _refuse(self, problem: HeadProblem) -> None:
        """Answer and close; where another answer is being written, only close."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        self._write(problem)

    def _write(self, problem: HeadProblem) -> None:
        body = (Refusal(error=problem.line).model_dump_json() + "\n").encode()
        lines = (
            f"HTTP/1.1 {problem.status} {_REASONS[problem.status]}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        )
        self.transport.write("\r\n".join((*lines, "", "")).encode() + body)
        self.transport.close()
