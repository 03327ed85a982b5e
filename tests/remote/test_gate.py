"""The gate in front of the server: token, names of this machine, foreign pages."""

from collections.abc import MutableMapping
from typing import Any

import anyio
import pytest

from kernelwright.remote.gate import AccessGate

TOKEN = "a-token-for-tests-only"
GOOD = {"host": "127.0.0.1:8788", "authorization": f"Bearer {TOKEN}"}


def status(headers: list[tuple[str, str]], token: str | None = TOKEN, hosts: tuple[str, ...] = ()) -> int:
    """Return how a request ends; 200 stands for what is behind the gate."""
    found: list[int] = []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        found.append(200)

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    scope = {"type": "http", "headers": [(k.encode(), v.encode()) for k, v in headers]}
    anyio.run(AccessGate(inside, token, hosts), scope, receive, send)
    return found[0]


def with_(**headers: str) -> list[tuple[str, str]]:
    return list({**GOOD, **headers}.items())


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (with_(), 200),
        (with_(host="localhost"), 200),
        (with_(host="[::1]:9"), 200),
        (with_(origin="http://localhost:3000"), 200),
        (with_(authorization=f"bearer {TOKEN}"), 200),
        ([("host", "localhost")], 401),
        (with_(authorization=f"Bearer {TOKEN}x"), 403),
        (with_(authorization=f"Basic {TOKEN}"), 403),
        (with_(authorization="Bearer "), 403),
        ([*with_(), ("authorization", "Bearer other")], 401),
        (with_(origin="http://evil.example"), 403),
        (with_(origin="null"), 403),
        (with_(origin=""), 403),
        (with_(origin="http://127.0.0.1.evil.example"), 403),
        (with_(host="evil.example"), 421),
        (with_(host=""), 421),
        (with_(host="localhost@evil.example"), 421),
        (with_(host="[::1"), 421),
        ([("authorization", f"Bearer {TOKEN}")], 421),
    ],
)
def test_who_is_let_in(headers: list[tuple[str, str]], expected: int) -> None:
    assert status(headers) == expected


def test_further_names_are_allowed_by_name() -> None:
    there = with_(host="Build-Box:8788", origin="http://build-box")
    assert status(there) == 421
    assert status(there, hosts=("build-box",)) == 200


def test_without_a_token_the_other_checks_stay() -> None:
    assert status([("host", "localhost")], None) == 200
    assert status([("host", "evil.example")], None) == 421
