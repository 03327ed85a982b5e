"""What is checked of a request before anything of it counts."""

import math
from typing import TypeVar

from pydantic import ValidationError

from kernelwright.core.errors import missing
from kernelwright.core.frozen import Frozen
from kernelwright.remote.access import is_own_host_header, matches
from kernelwright.remote.lines import first_fault

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
except ImportError as error:
    raise missing(error, "serve") from error

F = TypeVar("F", bound=Frozen)

DRAIN = 8
"""Bodies up to this many times the limit are read to their end, so that the client gets to see the 413."""
SHOWN = 40
"""Characters of a client's own words that an answer repeats."""


def shown(text: str) -> str:
    """Return the beginning of a client's words, in quotes and with nothing hidden in them."""
    return ascii(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


class Intake:
    """Access, form and size of requests; every fault is an HTTPException."""

    def __init__(self, token: str | None, *, max_bytes: int, max_wait_s: float) -> None:
        self._token, self._max_bytes, self._max_wait_s = token, max_bytes, max_wait_s

    def require_access(self, request: Request) -> None:
        """Raise 401 or 403 unless the request may be answered."""
        if self._token is None:
            if not is_own_host_header(request.headers.get("host", "")):
                raise HTTPException(403, "this service answers programs on its own machine only")
            return
        headers = request.headers.getlist("authorization")
        if len(headers) > 1:
            raise HTTPException(400, "the header authorization comes twice; send it once")
        header = headers[0] if headers else None
        if header is None:
            how = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "send the header Authorization: Bearer TOKEN", how)
        if not matches(header, self._token):
            raise HTTPException(403, "wrong token")

    async def read(self, request: Request, kind: type[F]) -> F:
        """Return the body as a record; raises 400, 401, 403, 413 or 415."""
        self.require_access(request)
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":  # no web page can send that without being asked first
            raise HTTPException(415, "send the header Content-Type: application/json")
        body = await self._body(request)
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            raise HTTPException(400, f"the body is no {kind.__name__}: {first_fault(error)}") from error

    def wait_s(self, request: Request) -> float:
        """Return how long the client wants to wait, bounded; raises 400."""
        text = request.query_params.get("wait", "0")
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            raise HTTPException(400, f"wait={shown(text)} is no number of seconds")
        return min(seconds, self._max_wait_s)

    async def _body(self, request: Request) -> bytes:
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:16]) > self._max_bytes:  # at once, before any of it comes
            raise self._too_large()
        size = 0
        chunks: list[bytes] = []
        async for chunk in request.stream():
            size += len(chunk)
            if size <= self._max_bytes:
                chunks.append(chunk)
            elif size > DRAIN * self._max_bytes:
                break
        if size > self._max_bytes:
            raise self._too_large()
        return b"".join(chunks)

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"the body has more than {self._max_bytes} bytes")
