"""The engine's evaluator over a real connection that fails in every way."""

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.remote.conftest import LIMIT_S, TASK, TOKEN, Service, StubReferee, serving
from tests.runs.test_run import SPEC, tools

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.task import Task
from kernelwright.remote.client import RemoteEvaluator
from kernelwright.remote.records import EvaluationRequest
from kernelwright.remote.retry import Patience
from kernelwright.remote.service import ServiceSettings, make_app
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.loop import start_run
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_evaluation

KERNEL = Candidate(source="kernel")


class Sleeper:
    """Stands in for time.sleep: remembers how long, sleeps not."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


class Flaky:
    """Stands between the connection and the service: spoils the next answers to some path.

    ``cut`` closes the connection before the service hears of the request, ``lost`` after it has acted on
    it; a number is answered as that status, ``429:7`` with a Retry-After of 7.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self.faults: list[tuple[str, str]] = []
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self.seen.append(f"{scope['method']} {scope['path']}")
        at = next((i for i, (where, _) in enumerate(self.faults) if where in self.seen[-1]), None)
        if at is None:
            await self._app(scope, receive, send)
            return
        await self._spoil(self.faults.pop(at)[1], scope, receive, send)

    async def _spoil(self, fault: str, scope: Any, receive: Any, send: Any) -> None:
        async def swallow(message: Any) -> None:
            pass

        if fault == "lost":
            await self._app(scope, receive, swallow)
        status, _, after = fault.partition(":")
        is_cut = not status.isdigit()
        headers = [(b"retry-after", after.encode())] if after else []
        headers += [(b"content-length", b"100")] if is_cut else []
        await send(
            {"type": "http.response.start", "status": 200 if is_cut else int(status), "headers": headers}
        )
        await send({"type": "http.response.body", "body": b"half" if is_cut else b"", "more_body": is_cut})


@pytest.fixture
def flaky(stub: StubReferee) -> Flaky:
    return Flaky(make_app(lambda: stub, token=TOKEN, settings=ServiceSettings(max_wait_s=LIMIT_S)))


@pytest.fixture
def url(flaky: Flaky) -> Iterator[str]:
    with serving(flaky) as url:
        yield url


def remote(url: str, sleeper: Sleeper | None = None, **patience: float) -> RemoteEvaluator:
    """Return an evaluator that never really sleeps."""
    return RemoteEvaluator(url, TOKEN, patience=Patience(**patience), sleep=sleeper or Sleeper())


def test_a_session_over_http_is_the_engines_session(service: Service) -> None:
    evaluator: Evaluator = remote(service.url)
    with evaluator.open(TASK) as session:
        assert session.baseline_ms == {"default": 10.0}
        assert session.evaluate(KERNEL) == fake_evaluation(KERNEL, TASK, 2.0)
        assert session.evaluate(KERNEL, final=True) == fake_evaluation(KERNEL, TASK, 2.0, final=True)
    assert service.stub.asked == ["kernel", "kernel"]


def test_the_engines_loop_runs_over_http(tmp_path: Path) -> None:
    referee = FakeReferee({"a": 1.0, "b": 1.5, "b>x": 2.5})
    with serving(make_app(lambda: referee, token=TOKEN)) as url:
        loop = tools(open_store(tmp_path / "runs.db"), remote(url), ScriptedTeam(["a", "b"], ["x"]))  # type: ignore[arg-type]
        outcome = start_run(SPEC, loop)
    assert outcome.winner is not None and outcome.winner.source == "b>x"
    assert referee.asked[-1] == ("b>x", True)


@pytest.mark.parametrize("fault", ["cut", "lost", "500", "503", "429", "429:0"])
@pytest.mark.parametrize("where", ["/health", "POST /tasks", "POST /evaluations", "GET /evaluations"])
def test_a_passing_failure_goes_unnoticed_and_nothing_is_measured_twice(
    flaky: Flaky, url: str, where: str, fault: str
) -> None:
    flaky.faults = [(where, fault), (where, fault)]
    with remote(url).open(TASK) as session:
        assert session.evaluate(KERNEL).is_verified
    assert flaky.faults == []


def test_a_lost_answer_is_not_measured_twice(flaky: Flaky, url: str, stub: StubReferee) -> None:
    flaky.faults = [("POST /evaluations", "lost"), ("GET /evaluations", "lost"), ("POST /tasks", "lost")]
    with remote(url).open(TASK) as session:
        assert session.evaluate(KERNEL).is_verified
        assert session.evaluate(KERNEL).is_verified
    assert (stub.opened, stub.asked) == (["stub"], ["kernel"])


def test_another_session_measures_anew(url: str, stub: StubReferee) -> None:
    for _ in range(2):
        with remote(url).open(TASK) as session:
            session.evaluate(KERNEL)
    assert stub.asked == ["kernel", "kernel"]


def test_retry_after_is_honoured(flaky: Flaky, url: str) -> None:
    sleeper = Sleeper()
    flaky.faults = [("/tasks", "429:7"), ("/tasks", "503:3"), ("/tasks", "429:Sat, 21 Nov 2026 11:00:00 GMT")]
    with remote(url, sleeper).open(TASK):
        assert sleeper.slept[:3] == [7.0, 3.0, 0.5]


@pytest.mark.parametrize("fault", ["cut", "500", "429:30"])
def test_patience_ends(flaky: Flaky, url: str, fault: str) -> None:
    sleeper = Sleeper()
    flaky.faults = [("POST /tasks", fault)] * 100
    with pytest.raises(MachineError, match=r"no answer|refuses|no room") as caught:
        remote(url, sleeper, lost_s=20.0, busy_s=100.0).open(TASK)
    assert "\n" not in str(caught.value)
    assert 2 < len(sleeper.slept) < 20
    assert sum(sleeper.slept) <= 100


def test_no_service_there_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(MachineError, match=f"no answer from http://127.0.0.1:{port}.*kernelwright serve"):
        remote(f"http://127.0.0.1:{port}").open(TASK)


class _Other(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
        self.wfile.write(b"<html>something else</html>")

    def log_message(self, *args: object) -> None:
        pass


def test_another_service_is_found_out() -> None:
    with HTTPServer(("127.0.0.1", 0), _Other) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            with pytest.raises(MachineError, match="no Health of version"):
                remote(base).open(TASK)
            with pytest.raises(MachineError, match="refuses: Not Found"):
                remote(f"{base}/elsewhere").open(TASK)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("token", "words"), [(None, "wants a token"), ("not-the-right-one-at-all", "wrong token")]
)
def test_a_wrong_token_is_the_users_fault_and_is_not_told(url: str, token: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        RemoteEvaluator(url, token, sleep=Sleeper()).open(TASK)
    assert "KERNELWRIGHT_SERVE_TOKEN" in str(caught.value)
    assert "not-the-right" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8787",
        "ftp://host",
        "http://",
        "http://h:99999",
        "http://h:x",
        "http://h?a=1",
        "http://[h",
    ],
)
def test_an_address_that_is_none_is_the_users_fault(url: str) -> None:
    with pytest.raises(UserError, match="is no address of a service"):
        RemoteEvaluator(url, TOKEN)


def test_too_large_is_the_users_fault(start_service: Callable[..., Service]) -> None:
    service = start_service(max_bytes=2000)
    with remote(service.url).open(TASK) as session:
        with pytest.raises(UserError, match=r"more than 2000 bytes.*--max-bytes"):
            session.evaluate(Candidate(source="x" * 1_000_000))
        assert session.evaluate(KERNEL).is_verified


def test_a_refused_task_is_a_task_error(flaky: Flaky, url: str) -> None:
    with pytest.raises(TaskError, match="dice: not deterministic; try eval mode"):
        remote(url).open(Task(name="dice", source="refuse me"))
    flaky.seen.clear()
    with pytest.raises(TaskError, match="live module"):
        remote(url).open(Task(name="live", source="x", artifact="/tmp/x.pkl"))
    assert flaky.seen == []


@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [("machine", MachineError, "no memory"), ("task", TaskError, "died"), ("defect", MachineError, "oops")],
)
def test_a_failed_evaluation_is_the_exception_that_it_was(
    url: str, source: str, kind: type[Exception], words: str
) -> None:
    with remote(url).open(TASK) as session:
        with pytest.raises(kind, match=words):
            session.evaluate(Candidate(source=source))
        assert session.evaluate(KERNEL).is_verified


def test_a_service_that_was_started_anew_goes_unnoticed(stub: StubReferee) -> None:
    with serving(make_app(lambda: stub, token=TOKEN)) as url:
        session = remote(url).open(TASK)
    port = int(url.rpartition(":")[2])
    with serving(make_app(lambda: stub, token=TOKEN), port), session:
        assert session.evaluate(KERNEL).is_verified


def test_a_forgotten_evaluation_is_sent_again_but_not_for_ever(flaky: Flaky, url: str) -> None:
    flaky.faults = [("GET /evaluations", "404")]
    with remote(url).open(TASK) as session:
        assert session.evaluate(KERNEL).is_verified
        flaky.faults = [("GET /evaluations", "404")] * 100
        with pytest.raises(MachineError, match="HTTP 404"):
            session.evaluate(Candidate(source="other"))
        flaky.faults = [("POST /evaluations", "404")] * 100
        with pytest.raises(MachineError, match=r"forgets the task.*when it is quieter"):
            session.evaluate(Candidate(source="third"))


def _hold(service: Service) -> None:
    service.stub.go.clear()
    assert service.submit("holds the others up").status_code == 202
    assert service.stub.busy.wait(LIMIT_S)


def test_an_interrupted_client_takes_its_request_back(start_service: Callable[..., Service]) -> None:
    service = start_service(max_wait_s=0.01)
    while service.post("/tasks", TASK).status_code == 202:
        pass

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    evaluator = RemoteEvaluator(service.url, TOKEN, sleep=interrupted)
    with evaluator.open(TASK) as session:
        _hold(service)
        with pytest.raises(KeyboardInterrupt):
            session.evaluate(KERNEL)
    assert service.http.get("/health").json()["queued"] == 0


def test_a_verdict_that_never_comes_ends_in_one_line(start_service: Callable[..., Service]) -> None:
    service = start_service(max_wait_s=0.01)
    while service.post("/tasks", TASK).status_code == 202:
        pass
    with remote(service.url).open(TASK) as session:
        _hold(service)
        session._patience = Patience(evaluation_s=0.05)
        with pytest.raises(MachineError, match="no verdict after"):
            session.evaluate(KERNEL)
    assert service.http.get("/health").json()["queued"] == 0


def test_a_cancelled_evaluation_is_a_failure_of_the_machine(service: Service) -> None:
    with remote(service.url).open(TASK) as session:
        _hold(service)
        attempt = session._attempt
        request = EvaluationRequest(task_id=TASK.id, candidate=KERNEL, attempt=attempt)

        def cancel() -> None:
            while service.http.delete(f"/evaluations/{request.id_for('127.0.0.1')}").status_code != 200:
                pass

        other = threading.Thread(target=cancel)
        other.start()
        with pytest.raises(MachineError, match="cancelled at the service"):
            session.evaluate(KERNEL)
        other.join()
