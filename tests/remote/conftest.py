"""A real HTTP server on a loopback port; behind it a labelled stub, or the real referee."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.remote.server import HttpServer, listen, url_of
from kernelwright.remote.service import ServiceSettings, make_app
from kernelwright.testing.fake_run import fake_evaluation

TOKEN = "a-token-for-tests-only"
TASK = Task(name="stub", source="never run by the stub")
LIMIT_S = 30.0
"""No test waits this long unless something is broken."""


@dataclass
class StubReferee:
    """Stands in for the referee: measures nothing, fails by the candidate's text, can be held up."""

    asked: list[str] = field(default_factory=list)
    floors: dict[str, Floor] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    is_open: dict[str, bool] = field(default_factory=dict)
    n_started: int = 0
    n_ended: int = 0
    n_at_once: int = 0
    most_at_once: int = 0
    go: threading.Event = field(default_factory=threading.Event)
    busy: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.go.set()

    def open(self, task: Task) -> "StubSession":
        """Admit every task but one whose source says so."""
        if "refuse me" in task.source:
            raise TaskError(f"{task.name}: not deterministic;\ntry eval mode")
        if "no compiler" in task.source:
            raise MachineError("no compiler")
        if "alone" in task.source and any(self.is_open.values()):
            raise TaskError("too large beside the others")
        self.opened.append(task.name)
        self.is_open[task.name] = True
        return StubSession(self, task)

    def __enter__(self) -> "StubReferee":
        self.n_started += 1
        return self

    def __exit__(self, *exc: object) -> None:
        self.n_ended += 1


@dataclass
class StubSession:
    """A task before the stub."""

    referee: StubReferee
    task: Task

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Ten milliseconds for everything."""
        return {workload.name: 10.0 for workload in self.task.workloads}

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return twice as fast as eager, or raise what the candidate's text says."""
        stub = self.referee
        stub.n_at_once += 1
        stub.most_at_once = max(stub.most_at_once, stub.n_at_once)
        stub.asked.append(candidate.source.strip())
        stub.floors = dict(floors or {})
        stub.busy.set()
        try:
            assert stub.go.wait(LIMIT_S)
        finally:
            stub.n_at_once -= 1
        errors: dict[str, Exception] = {
            "machine": MachineError("the worker process cannot start:\nno memory"),
            "task": TaskError("the reference died"),
            "defect": ZeroDivisionError("oops"),
        }
        if candidate.source.strip() in errors:
            raise errors[candidate.source.strip()]
        return fake_evaluation(candidate, self.task, 2.0, final=final)

    def __enter__(self) -> "StubSession":
        return self

    def __exit__(self, *exc: object) -> None:
        self.referee.is_open[self.task.name] = False


@contextmanager
def serving(app: Any, port: int = 0) -> Iterator[str]:
    """Serve an ASGI application on a real socket; yields its URL."""
    sock = listen("127.0.0.1", port)
    server = HttpServer(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield url_of(sock)
    finally:
        server.should_exit = True
        thread.join(LIMIT_S)
        sock.close()
        assert not thread.is_alive(), "the server does not end"


@pytest.fixture
def stub() -> Iterator[StubReferee]:
    """A stub that is released at the end, however the test ends."""
    stub = StubReferee()
    yield stub
    stub.go.set()


@dataclass
class Service:
    """A running service and a client that has the token."""

    url: str
    http: httpx.Client
    stub: StubReferee

    def post(self, path: str, record: Any, **more: Any) -> httpx.Response:
        """Send a record, or text that is none."""
        body = record if isinstance(record, str) else record.model_dump_json()
        headers = {"Content-Type": "application/json"} | more.pop("headers", {})
        return self.http.post(path, content=body, headers=headers, **more)

    def admit(self, task: Task = TASK) -> Task:
        """Have a task admitted."""
        answer = self.post("/tasks", task)
        assert answer.status_code == 200, answer.text
        return task

    def submit(self, source: str, task: Task = TASK, **more: Any) -> httpx.Response:
        """Ask for a verdict on a source."""
        candidate = {"source": source}
        return self.http.post("/evaluations", json={"task_id": task.id, "candidate": candidate, **more})

    def result(self, evaluation_id: str) -> Any:
        """Wait for an evaluation's end."""
        answer = self.http.get(f"/evaluations/{evaluation_id}", params={"wait": LIMIT_S})
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def start_service(stub: StubReferee) -> Iterator[Callable[..., Service]]:
    """Start services in front of the stub, with whatever limits."""
    with ExitStack() as stack:
        stack.callback(stub.go.set)  # the first thing at the end: nothing may be held up while it ends

        def start(
            *, token: str | None = TOKEN, peaks: Any = None, machine: Any = None, **limits: Any
        ) -> Service:
            settings = ServiceSettings(**{"max_wait_s": LIMIT_S, **limits})
            app = make_app(lambda: stub, token=token, peaks=peaks, machine=machine, settings=settings)
            url = stack.enter_context(serving(app))
            stack.callback(stub.go.set)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            client = httpx.Client(base_url=url, headers=headers, timeout=2 * LIMIT_S, trust_env=False)
            return Service(url, stack.enter_context(client), stub)

        yield start


@pytest.fixture
def service(start_service: Callable[..., Service]) -> Service:
    """A service with the usual limits and one admitted task."""
    service = start_service()
    service.admit()
    return service
