"""Who may ask over HTTP: programs that hold the token, under a name of this machine, from no foreign page."""

from collections.abc import Collection

from kernelwright.core.errors import missing
from kernelwright.core.hosts import is_loopback
from kernelwright.remote.access import host_of, matches

try:
    from starlette.datastructures import Headers
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as error:
    raise missing(error, "serve") from error


class AccessGate:
    """Refuses requests before the application sees them.

    Args:
        app: what is behind the gate.
        token: what callers must send; None admits everyone who passes the other checks.
        hosts: names besides the loopback ones under which this machine may be asked.
    """

    def __init__(self, app: ASGIApp, token: str | None, hosts: Collection[str] = ()) -> None:
        self._app, self._token = app, token
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with 401, 403 or 421, or pass the request on."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        if not self._is_own(headers.get("host", "")):
            return _refuse(421, "this server is not asked under that name; allow it with --allow-host NAME")
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin.partition("://")[2]):
            return _refuse(403, "requests of web pages from elsewhere are refused")
        if self._token is None:
            return None
        sent = headers.getlist("authorization")
        if len(sent) != 1:
            how = {"WWW-Authenticate": "Bearer"}
            return _refuse(401, "send one header Authorization: Bearer TOKEN", how)
        return None if matches(sent[0], self._token) else _refuse(403, "wrong token")

    def _is_own(self, address: str) -> bool:
        """Tell whether ``HOST`` or ``HOST:PORT`` names this machine."""
        host = host_of(address)
        return bool(host) and (is_loopback(host) or host in self._hosts)


def _refuse(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)
