"""A real HTTP server for the OpenAI chat-completions protocol that misbehaves exactly as its script says.

What does not depend on the protocol serves any other as well; ``messages_protocol.py`` has Anthropic's.

For tests of everything that talks to a language model, ours or a plug-in's::

    with BadServer(status(429, retry_after="0"), says("hello")) as server:
        ...  # point base_url at server.url
    assert len(server.requests) == 2

The script is played one behaviour a request; the last one is repeated for every request after it.
"""

import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
LIFETIME_S = 60.0
"""An endless behaviour gives up after this, should nobody hang up and nobody close the server."""


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]
    """Decoded JSON; empty when it was none."""

    def text(self) -> str:
        """Return the contents of all messages, one after the other."""
        return "\n".join(str(message.get("content")) for message in self.body.get("messages", ()))


@dataclass
class Exchange:
    """A request and the raw connection to answer it on."""

    request: Request
    handler: BaseHTTPRequestHandler
    is_over: threading.Event
    """Set when the server is closed: endless behaviours end then."""

    def send_json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """Answer with a complete JSON document."""
        self.send(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send(self, status: int, data: bytes, headers: Mapping[str, str], length: int | None = None) -> None:
        """Answer with bytes; ``length`` announces another number than there are."""
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.send_header("Content-Length", str(len(data) if length is None else length))
        self.handler.end_headers()
        self.handler.wfile.write(data)

    def begin_chunks(self, content_type: str = "application/json") -> None:
        """Begin an answer whose length is not announced."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", content_type)
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()

    def chunk(self, data: bytes) -> None:
        """Send one chunk."""
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.handler.wfile.flush()

    def end_chunks(self) -> None:
        """End the answer in order."""
        self.handler.wfile.write(b"0\r\n\r\n")

    def hang_up(self, *, reset: bool = False) -> None:
        """Close the connection; with ``reset`` by an RST instead of an orderly end."""
        connection = self.handler.connection
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        self.handler.close_connection = True


Behaviour = Callable[[Exchange], None]


def completion(
    text: str | None,
    *,
    finish_reason: str = "stop",
    usage: Mapping[str, int] | None = USAGE,
    message: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return a chat completion as the protocol has it."""
    body: dict[str, object] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": text, **(message or {})},
            }
        ],
    }
    if usage is not None:
        body["usage"] = dict(usage)
    return body


def says(
    text: str | None,
    *,
    finish_reason: str = "stop",
    usage: Mapping[str, int] | None = USAGE,
    message: Mapping[str, object] | None = None,
) -> Behaviour:
    """Answer properly with that text."""
    body = completion(text, finish_reason=finish_reason, usage=usage, message=message)
    return lambda exchange: exchange.send_json(200, body)


def calls_tool(arguments: object) -> Behaviour:
    """Call the first tool that the request offers."""

    def behave(exchange: Exchange) -> None:
        name = exchange.request.body["tools"][0]["function"]["name"]
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": "call-1", "type": "function", "function": function}
        exchange.send_json(200, completion(None, finish_reason="tool_calls", message={"tool_calls": [call]}))

    return behave


def calls(*asked: tuple[str, object]) -> Behaviour:
    """Call tools by name with these arguments, in one message; a text is sent as it is, JSON or not."""
    made = [
        {
            "id": f"call-{number}",
            "type": "function",
            "function": {"name": name, "arguments": said if isinstance(said, str) else json.dumps(said)},
        }
        for number, (name, said) in enumerate(asked, 1)
    ]
    body = completion(None, finish_reason="tool_calls", message={"tool_calls": made})
    return lambda exchange: exchange.send_json(200, body)


def without_tools(code: int, otherwise: Behaviour) -> Behaviour:
    """Refuse every request that carries a tool, and do something else with the others."""
    refuse = status(code, "this model does not support tools")
    return lambda exchange: (refuse if exchange.request.body.get("tools") else otherwise)(exchange)


def streams(
    *deltas: str | Mapping[str, object],
    finish_reason: str | None = "stop",
    interval_s: float = 0.0,
    usage: Mapping[str, int] | None = USAGE,
) -> Behaviour:
    """Answer piece by piece, each after a pause; a text is a piece of content.

    Without a reason to finish the stream ends and says nothing of it.
    """
    pieces = [{"content": delta} if isinstance(delta, str) else delta for delta in deltas]
    ends = [] if finish_reason is None else [_piece({}, finish_reason), {**_piece(None), "usage": usage}]

    def behave(exchange: Exchange) -> None:
        exchange.begin_chunks("text/event-stream")
        for event in [*map(_piece, pieces), *ends]:
            exchange.is_over.wait(interval_s)
            exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        exchange.chunk(b"data: [DONE]\n\n" if ends else b"\n")
        exchange.end_chunks()

    return behave


def _piece(delta: Mapping[str, object] | None, finish_reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    choices = [] if delta is None else [choice]
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": choices,
    }


def where_streamed(streamed: Behaviour, otherwise: Behaviour) -> Behaviour:
    """Do one thing for requests that ask for pieces, something else for the others."""
    return lambda exchange: (streamed if exchange.request.body.get("stream") else otherwise)(exchange)


def without_format(code: int, otherwise: Behaviour) -> Behaviour:
    """Refuse every request that carries a form for its answer, and do something else with the others."""
    refuse = status(code, "response_format is not supported")
    return lambda exchange: (refuse if "response_format" in exchange.request.body else otherwise)(exchange)


def answers(function: Callable[[Request], str]) -> Behaviour:
    """Answer properly with what the function makes of the request."""
    return lambda exchange: exchange.send_json(200, completion(function(exchange.request)))


def refuses(reason: str = "I cannot help with that.") -> Behaviour:
    """Decline, as the protocol's ``refusal`` field says."""
    return says(None, message={"refusal": reason})


def status(
    code: int, message: str = "scripted", /, *, retry_after: str | None = None, **error: str
) -> Behaviour:
    """Answer with an error in the protocol's form; ``error`` adds fields such as ``code`` or ``param``."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = {"error": {"message": message, "type": "scripted_error", **error}}
    return lambda exchange: exchange.send_json(code, body, headers)


def echoes_key(code: int) -> Behaviour:
    """Answer with an error that quotes the request's key back."""

    def behave(exchange: Exchange) -> None:
        key = exchange.request.headers.get("authorization", "")
        exchange.send_json(code, {"error": {"message": f"Incorrect API key provided: {key}", "code": key}})

    return behave


def sends(data: bytes, *, content_type: str = "application/json", code: int = 200) -> Behaviour:
    """Answer with these bytes, whatever they are."""
    return lambda exchange: exchange.send(code, data, {"Content-Type": content_type})


def resets() -> Behaviour:
    """Reset the connection without an answer."""
    return lambda exchange: exchange.hang_up(reset=True)


def stops_midway() -> Behaviour:
    """Begin a proper answer, send half of it, and close the connection."""

    def behave(exchange: Exchange) -> None:
        data = json.dumps(completion("half of this is missing")).encode()
        half = data[: len(data) // 2]
        exchange.send(200, half, {"Content-Type": "application/json"}, length=len(data))
        exchange.hang_up()

    return behave


def breaks_a_stream() -> Behaviour:
    """Begin an answer in chunks and reset the connection in the middle."""

    def behave(exchange: Exchange) -> None:
        exchange.begin_chunks()
        exchange.chunk(b'{"id": "chatcmpl-1", ')
        exchange.hang_up(reset=True)

    return behave


def hangs() -> Behaviour:
    """Never answer."""

    def behave(exchange: Exchange) -> None:
        exchange.is_over.wait(LIFETIME_S)
        exchange.hang_up(reset=True)

    return behave


def drips(interval_s: float = 0.02) -> Behaviour:
    """Send one byte after the other for ever: no read ever times out."""
    return _endless(b" ", interval_s)


def floods() -> Behaviour:
    """Send an answer without end, as fast as it is taken."""
    return _endless(b"x" * 65_536, 0.0)


def _endless(chunk: bytes, interval_s: float) -> Behaviour:
    def behave(exchange: Exchange) -> None:
        exchange.begin_chunks()
        while not exchange.is_over.wait(interval_s):
            exchange.chunk(chunk)

    return behave


class BadServer:
    """The server; starts when entered, and closes every connection when left."""

    def __init__(self, *script: Behaviour) -> None:
        if not script:
            raise ValueError("a server needs at least one behaviour")
        self._script = script
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self.requests: list[Request] = []
        """Everything that was asked so far."""
        self._server = _Server(("127.0.0.1", 0), self)

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def root(self) -> str:
        """The same without the version, for protocols that name it in every path."""
        return self.url.removesuffix("/v1")

    def behave(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        """Play the next behaviour of the script."""
        with self._lock:
            behaviour = self._script[min(len(self.requests), len(self._script) - 1)]
            self.requests.append(request)
        behaviour(Exchange(request, handler, self._is_over))

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: BadServer) -> None:
        super().__init__(address, _Handler)
        self.owner = owner

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients hang up on misbehaving servers, as they should."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(data)
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.owner.behave(self, Request(self.path, headers, body if isinstance(body, dict) else {}))

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""
