"""The warm referee's process as its clients see it, with a stub that judges."""

import os
import socket
import threading
from collections.abc import Callable

import pytest
from tests.warm.conftest import TASK, Warm, eventually, question

from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.targets.device import PROCESSOR
from kernelwright.testing.fake_run import fake_evaluation
from kernelwright.warm import client as clients
from kernelwright.warm import place as places
from kernelwright.warm.client import NoWarmReferee, WarmClient, end_warm, find_warm
from kernelwright.warm.doctor import check_warm
from kernelwright.warm.place import environment, identity_here
from kernelwright.warm.records import WarmRequest
from kernelwright.warm.server import take_lock

Start = Callable[..., Warm]


def test_a_verdict_comes_back_as_it_was_made(start: Start) -> None:
    warm = start()
    with warm.client() as client:
        asked = question("k")
        candidate = asked.evaluation.candidate
        assert client.judge(asked) == fake_evaluation(candidate, TASK, 2.0, final=False)
        assert client.judge(question("wait")).is_verified
    assert warm.lines == ["waiting for the device"]


@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [
        ("user", UserError, "no such tier"),
        ("task", TaskError, "not deterministic; try eval mode"),
        ("machine", MachineError, "no compiler"),
        ("defect", MachineError, "ZeroDivisionError: oops"),
    ],
)
def test_an_error_there_is_the_same_error_here(
    start: Start, source: str, kind: type[Exception], words: str
) -> None:
    with start().client() as client:
        with pytest.raises(kind, match=words):
            client.judge(question(source))
        assert client.judge(question("k")).is_verified


def test_there_is_one_evaluation_at_a_time_and_who_waits_is_told(start: Start) -> None:
    warm = start()
    warm.stub.go.clear()
    done: list[str] = []

    def ask(source: str) -> None:
        with warm.client() as client:
            client.judge(question(source))
            done.append(source)

    threads = [threading.Thread(target=ask, args=(f"k{i}",), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(warm.lines) == 3)
    warm.stub.go.set()
    assert eventually(lambda: len(done) == 4)
    assert warm.stub.most_at_once == 1
    assert sum(line.startswith("waiting for ") for line in warm.lines) == 3


def test_a_process_of_another_identity_is_replaced_and_ends_what_it_is_at(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = start(identity="an older version")
    started: list[Warm] = []
    monkeypatch.setattr(clients, "identity_here", lambda *_: "an older version")
    first = old.client()
    monkeypatch.setattr(clients, "identity_here", identity_here)
    old.stub.go.clear()
    answers: list[bool] = []
    thread = threading.Thread(
        target=lambda: answers.append(first.judge(question("old")).is_verified), daemon=True
    )
    thread.start()
    assert old.stub.busy.wait(60)

    def begin(self: WarmClient) -> None:
        started.append(start())

    monkeypatch.setattr(WarmClient, "_start", begin)
    with old.client() as second:
        assert second.judge(question("new")).is_verified
    assert old.stub.asked == ["old"] and started[0].stub.asked == ["new"]
    old.stub.go.set()
    thread.join(60)
    first.close()
    assert answers == [True]
    assert old.has_ended() and old.stub.is_closed and not old.stub.abandoned.is_set()


def test_two_versions_that_replace_each_other_come_to_an_end(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(self: WarmClient) -> None:
        start(identity="the other one")

    monkeypatch.setattr(WarmClient, "_start", begin)
    with start(identity="the other one").client() as client, pytest.raises(NoWarmReferee, match="replacing"):
        client.judge(question("k"))


def gone_client(warm: Warm, source: str) -> socket.socket:
    """Ask and return the bare socket."""
    sock = socket.socket(socket.AF_UNIX)
    with places.short_path(warm.place.socket) as name:
        sock.connect(name)
    request = WarmRequest(what="judge", identity=warm.client()._identity, question=question(source))
    sock.sendall(request.model_dump_json().encode() + b"\n")
    return sock


def test_a_client_that_vanishes_takes_its_evaluation_along(start: Start) -> None:
    warm = start()
    warm.stub.go.clear()
    running = gone_client(warm, "running")
    assert warm.stub.busy.wait(60)
    waiting = gone_client(warm, "waiting")
    assert eventually(lambda: _state(warm).queued == 1)
    waiting.close()
    assert eventually(lambda: _state(warm).queued == 0) and not warm.stub.abandoned.is_set()
    running.close()
    assert warm.stub.abandoned.wait(60)
    with warm.client() as client:
        assert client.judge(question("next")).is_verified
    assert warm.stub.asked == ["running", "next"]


def _state(warm: Warm) -> clients.WarmState:
    found = find_warm(warm.cache, PROCESSOR.name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"{",
        b"{}\n",
        b"\xff\xfe\n",
        b'{"what": "judge"}\n',
        b'{"what": "judge", "identity": 3}\n',
        b"x" * 9000,
    ],
)
def test_what_is_no_request_ends_the_conversation_and_nothing_else(start: Start, data: bytes) -> None:
    warm = start()
    with socket.socket(socket.AF_UNIX) as sock:
        with places.short_path(warm.place.socket) as name:
            sock.connect(name)
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(60)
        while sock.recv(4096):
            pass
    with warm.client() as client:
        assert client.judge(question("k")).is_verified


def test_half_a_message_holds_nobody_up(start: Start) -> None:
    warm = start()
    with socket.socket(socket.AF_UNIX) as sock:
        with places.short_path(warm.place.socket) as name:
            sock.connect(name)
        sock.sendall(b'{"what": "ju')
        with warm.client() as client:
            assert client.judge(question("k")).is_verified
        assert end_warm(warm.cache, PROCESSOR.name) is not None and warm.has_ended()


def test_another_user_gets_no_answer_and_is_given_none(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.warm import server

    warm = start()
    monkeypatch.setattr(server, "peer_user", lambda sock: os.getuid() + 1)
    with pytest.raises(NoWarmReferee), warm.client() as client:
        client.judge(question("k"))
    assert warm.stub.asked == []
    monkeypatch.setattr(server, "peer_user", places.peer_user)
    monkeypatch.setattr(clients, "peer_user", lambda sock: os.getuid() + 1)
    with pytest.raises(NoWarmReferee, match="another user"), warm.client() as client:
        client.judge(question("k"))
    assert warm.stub.asked == []


def test_only_its_user_can_reach_the_socket(start: Start) -> None:
    warm = start()
    assert warm.place.socket.stat().st_mode & 0o777 == 0o600
    assert warm.place.socket.parent.stat().st_mode & 0o777 == 0o700


def test_it_ends_when_nobody_asks_and_leaves_room_for_another(start: Start) -> None:
    warm = start(idle_s=0.0)
    assert warm.has_ended() and warm.stub.is_closed and not warm.place.socket.exists()
    lock = take_lock(warm.place)
    assert lock is not None
    os.close(lock)


def test_it_ends_when_its_socket_is_gone(start: Start) -> None:
    warm = start()
    warm.place.socket.unlink()
    assert warm.has_ended()


def test_there_is_only_one(start: Start) -> None:
    assert take_lock(start().place) is None


def test_a_socket_that_a_killed_process_left_is_replaced(start: Start) -> None:
    warm = start(idle_s=0.0)
    assert warm.has_ended()
    with socket.socket(socket.AF_UNIX) as left, places.short_path(warm.place.socket) as name:
        left.bind(name)
    assert find_warm(warm.cache, PROCESSOR.name) is None
    with start().client() as client:
        assert client.judge(question("k")).is_verified


def test_doctor_shows_it_and_can_end_it(start: Start) -> None:
    warm = start(idle_s=300.0)
    with warm.client() as client:
        client.judge(question("k"))
    check = check_warm(warm.cache)
    assert check.ok and f"process {os.getpid()} " in check.value and "1 kernels judged" in check.value
    assert "--end-referee" in check.advice
    assert end_warm(warm.cache, PROCESSOR.name) is not None
    assert warm.has_ended()
    assert (
        check_warm(warm.cache).value.startswith("none runs") and end_warm(warm.cache, PROCESSOR.name) is None
    )


def test_its_environment_holds_no_secret_and_decides_its_identity(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    cache = start().cache
    before = identity_here(cache, PROCESSOR.name)
    for name in ("OPENAI_API_KEY", "KERNELWRIGHT_SERVE_TOKEN", "OMP_NUM_THREADS", "LD_PRELOAD", "HOME"):
        monkeypatch.setenv(name, "secret")
        assert name not in environment()
    assert identity_here(cache, PROCESSOR.name) == before
    for name in ("PATH", "CXX"):
        with monkeypatch.context() as changed:
            changed.setenv(name, "elsewhere")
            assert identity_here(cache, PROCESSOR.name) != before
    monkeypatch.setattr(places, "usable_cores", lambda: (0,))
    assert identity_here(cache, PROCESSOR.name) != before
