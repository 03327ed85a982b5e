"""Carries the service to a socket and to a clean end."""

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from kernelwright.core.errors import UserError, missing

try:
    import uvicorn
    from starlette.requests import ClientDisconnect
except ImportError as error:
    raise missing(error, "serve") from error

# after the message about the missing extra
from kernelwright.remote.careful import CarefulConnection

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

MAX_CONNECTIONS = 256
"""Open at once; ours. One more is answered with 503."""
GRACE_S = 5
"""Seconds that open answers get at the end; our choice."""


class HttpServer(uvicorn.Server):
    """uvicorn, which tells the application first when it is asked to end."""

    def __init__(self, app: "Starlette") -> None:
        config = uvicorn.Config(
            _without_clients_that_left(app),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="on",
            ws="none",
            proxy_headers=False,  # a client is the address that it comes from, whatever it says of itself
            server_header=False,
            http=CarefulConnection,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=GRACE_S,
        )
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Wake whoever waits for an answer, then end."""
        asyncio.get_running_loop().call_soon_threadsafe(self._app.state.stop)
        super().handle_exit(sig, frame)


def _without_clients_that_left(app: "ASGIApp") -> "ASGIApp":
    """Return the application without the traceback for each client that hangs up before its body is whole."""

    async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
        with contextlib.suppress(ClientDisconnect):
            await app(scope, receive, send)

    return answer


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises UserError when the address cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot listen on {host} port {port}: {reason}; choose another --port") from error


def url_of(sock: socket.socket) -> str:
    """Return the address of a listening socket as a client names it."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_http(app: "Starlette", sock: socket.socket, on_start: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then return; the referee's processes are gone by then."""
    on_start(url_of(sock))
    with _quiet_signals():
        HttpServer(app).run(sockets=[sock])


@contextlib.contextmanager
def _quiet_signals() -> Iterator[None]:
    """Keep uvicorn from sending itself the signal again that it has ended on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {sig: signal.signal(sig, lambda *_: None) for sig in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sig, handler in kept.items():
            signal.signal(sig, handler)
