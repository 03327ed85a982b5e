"""Clients that wait, and requests that two readers would read in two ways, over real sockets."""

import contextlib
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.remote.conftest import TOKEN, Service, StubReferee, serving

from kernelwright.remote import careful
from kernelwright.remote.careful import MAX_WITHOUT_HEAD
from kernelwright.remote.heads import MAX_HEAD_BYTES, Heads

HALF = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
AUTH = f"Authorization: Bearer {TOKEN}"


def connect(service: Service) -> socket.socket:
    parts = urlsplit(service.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20)


def ask(service: Service, *lines: str, body: bytes = b"") -> tuple[int, bytes]:
    """Send lines as they are; return the status and everything that comes until the end."""
    with connect(service) as sock:
        sock.sendall("\r\n".join((*lines, "", "")).encode() + body)
        answer = b""
        while part := sock.recv(65536):
            answer += part
    return int(answer.split()[1]), answer


def test_many_clients_that_send_half_a_header_shut_nobody_out(service: Service) -> None:
    slow = [connect(service) for _ in range(300)]
    try:
        for sock in slow:
            sock.sendall(HALF)
        time.sleep(0.2)
        for _ in range(3):
            assert httpx.get(f"{service.url}/health", trust_env=False).status_code == 200
        assert sum(_is_open(sock) for sock in slow) <= MAX_WITHOUT_HEAD
    finally:
        for sock in slow:
            sock.close()


def _is_open(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


TWICE = {
    "two lengths": ("Content-Length: 2", "Content-Length: 2"),
    "different lengths": ("Content-Length: 2", "Content-Length: 7"),
    "length and chunks": ("Content-Length: 2", "Transfer-Encoding: chunked"),
    "two tokens": (AUTH, "Authorization: Bearer other-one", "Content-Length: 2"),
    "two origins": ("Origin: http://127.0.0.1", "Origin: http://elsewhere", "Content-Length: 2"),
    "two hosts": ("Host: elsewhere", "Content-Length: 2"),
    "a signed length": ("Content-Length: +2",),
    "a folded header": ("X: a", " Content-Length: 2"),
}


@pytest.mark.parametrize("case", TWICE)
def test_what_can_be_read_in_two_ways_is_refused(service: Service, case: str) -> None:
    lines = ("POST /tasks HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *TWICE[case])
    status, answer = ask(service, *lines, body=b"{}GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    assert status == 400 and answer.count(b"HTTP/1.1") == 1 and b'"error"' in answer


BROKEN = {
    "no size": b"-2\r\n{}",
    "an endless size": b"f" * 40,
    "hung up": b"2\r\n{",
    "trailers": b"0\r\nX: " + b"a" * 99_999,
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_body_that_breaks_off_is_one_line_in_the_log_at_most(
    service: Service, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = ("POST /tasks HTTP/1.1", "Host: 127.0.0.1", AUTH, "Content-Type: application/json")
    with connect(service) as sock:
        sock.sendall("\r\n".join((*head, "Transfer-Encoding: chunked", "", "")).encode() + BROKEN[case])
        sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while sock.recv(65536):
                pass
    assert httpx.get(f"{service.url}/health", trust_env=False).status_code == 200
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize("begun", [b"{", b""])
def test_a_body_that_does_not_come_is_answered_whatever_the_application_is(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(careful, "BODY_S", 0.1)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while scope["type"] == "http" and (await receive())["type"] == "http.request":
            pass

    with serving(app) as url:
        lines = ("POST / HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 2")
        status, answer = ask(Service(url, httpx.Client(), StubReferee()), *lines, body=begun)
    assert status == 408 and b"did not come" in answer


def test_a_request_behind_chunks_is_not_answered(service: Service) -> None:
    lines = ("POST /tasks HTTP/1.1", "Host: 127.0.0.1", AUTH, "Content-Type: application/json")
    smuggled = b"2\r\n{}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    status, answer = ask(service, *lines, "Transfer-Encoding: chunked", body=smuggled)
    assert status == 400 and answer.count(b"HTTP/1.1") == 1


def test_a_large_length_is_refused_before_the_body_comes(service: Service) -> None:
    lines = ("POST /tasks HTTP/1.1", "Host: 127.0.0.1", AUTH, "Content-Type: application/json")
    with connect(service) as sock:
        sock.sendall("\r\n".join((*lines, "Content-Length: 5000000000", "", "")).encode())
        assert b" 413 " in sock.recv(65536)


@pytest.mark.parametrize(("n", "status"), [(5_000, 404), (70_000, 431)])
def test_a_long_id_is_not_repeated(service: Service, n: int, status: int) -> None:
    got, answer = ask(
        service, f"GET /evaluations/{'x' * n} HTTP/1.1", "Host: 127.0.0.1", AUTH, "Connection: close"
    )
    assert got == status and len(answer) < 500


def test_one_connection_serves_many_requests(service: Service) -> None:
    with connect(service) as sock:
        for _ in range(5):
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}\n"):
                answer += sock.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")


@given(st.lists(st.integers(0, 40), max_size=5), st.lists(st.integers(1, 60), max_size=60))
def test_heads_are_the_same_however_the_bytes_are_cut(bodies: list[int], cuts: list[int]) -> None:
    stream = b"".join(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % n + b"\n" * n for n in bodies)
    heads = Heads()
    for cut in [*cuts, len(stream)]:
        assert heads.feed(stream[:cut]) is None
        stream = stream[cut:]
    assert heads.n_read == len(bodies) and not heads.is_inside


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    heads = Heads()
    for _ in range(200):
        if heads.feed(data) is not None:
            return
    assert len(heads._head) <= MAX_HEAD_BYTES
