"""Behaviours of a ``BadServer`` that speaks Anthropic's Messages protocol; the base URL is ``server.root``.

Resets, hangs, floods and broken bytes are the same in every protocol: ``bad_server.py`` has them.
"""

import json
from collections.abc import Mapping

from lab.servers.bad_server import Behaviour, Exchange

TOKENS = {"input_tokens": 11, "output_tokens": 7}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""As the protocol's documentation lists them."""


def message(
    *content: Mapping[str, object],
    stop_reason: str = "end_turn",
    usage: Mapping[str, int] = TOKENS,
) -> dict[str, object]:
    """Return a message as the protocol has it."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [dict(block) for block in content],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": dict(usage),
    }


def replies(*texts: str, stop_reason: str = "end_turn", usage: Mapping[str, int] = TOKENS) -> Behaviour:
    """Answer properly with blocks of text."""
    blocks = [{"type": "text", "text": text} for text in texts]
    return lambda exchange: exchange.send_json(200, message(*blocks, stop_reason=stop_reason, usage=usage))


def uses_tool(arguments: Mapping[str, object]) -> Behaviour:
    """Call the first tool that the request offers."""

    def behave(exchange: Exchange) -> None:
        name = exchange.request.body["tools"][0]["name"]
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": dict(arguments)}
        exchange.send_json(200, message(block, stop_reason="tool_use"))

    return behave


def uses(name: str, arguments: Mapping[str, object]) -> Behaviour:
    """Call a tool by name."""
    block = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": dict(arguments)}
    return lambda exchange: exchange.send_json(200, message(block, stop_reason="tool_use"))


def streams_message(*texts: str, stop_reason: str = "end_turn", is_whole: bool = True) -> Behaviour:
    """Answer piece by piece; where it is not whole, the stream ends before the message does."""
    begun = {**message(usage={"input_tokens": 11, "output_tokens": 1}), "stop_reason": None}
    pieces: list[dict[str, object]] = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in texts
    ]
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *pieces,
    ]
    if is_whole:
        ended = {"stop_reason": stop_reason, "stop_sequence": None}
        events += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ]

    def behave(exchange: Exchange) -> None:
        exchange.begin_chunks("text/event-stream")
        for event in events:
            exchange.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        exchange.end_chunks()

    return behave


def fails(code: int, said: str = "scripted", *, retry_after: str | None = None) -> Behaviour:
    """Answer with an error in the protocol's form."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    error = {"type": ERROR_TYPES.get(code, "api_error"), "message": said}
    body = {"type": "error", "error": error, "request_id": "req_1"}
    return lambda exchange: exchange.send_json(code, body, headers)


def quotes_key(code: int) -> Behaviour:
    """Answer with an error that quotes the request's key back."""

    def behave(exchange: Exchange) -> None:
        headers = exchange.request.headers
        key = headers.get("x-api-key") or headers.get("authorization", "")
        fails(code, f"invalid key: {key}")(exchange)

    return behave


def stops_halfway() -> Behaviour:
    """Begin a proper answer, send half of it, and close the connection."""

    def behave(exchange: Exchange) -> None:
        data = json.dumps(message({"type": "text", "text": "half of this is missing"})).encode()
        exchange.send(200, data[: len(data) // 2], {"Content-Type": "application/json"}, length=len(data))
        exchange.hang_up()

    return behave
