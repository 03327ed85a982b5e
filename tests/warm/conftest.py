"""A warm referee's process, or its server with a labelled stub in the place of what judges."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.task import Task
from kernelwright.machine import private_folder
from kernelwright.remote.records import EvaluationRequest
from kernelwright.targets.device import PROCESSOR
from kernelwright.testing.fake_run import fake_evaluation
from kernelwright.warm import server
from kernelwright.warm.client import WarmClient
from kernelwright.warm.place import WarmPlace, place_for
from kernelwright.warm.records import WarmQuestion, WarmStart

PATIENCE_S = 60.0
TASK = Task(name="stub", source="never run by the stub")
ERRORS: dict[str, Exception] = {
    "user": UserError("no such tier"),
    "task": TaskError("not deterministic;\ntry eval mode"),
    "machine": MachineError("no compiler"),
    "defect": ZeroDivisionError("oops"),
}


def question(source: str, task: Task = TASK) -> WarmQuestion:
    """Return what asks for a verdict on a source."""
    asked = EvaluationRequest(task_id=task.id, candidate=Candidate(source=source))
    return WarmQuestion(task=task, evaluation=asked)


@dataclass
class StubJudge:
    """Stands in for the judge: measures nothing, fails by the kernel's text, can be held up."""

    judged: int = 0
    tasks: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    busy: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    abandoned: threading.Event = field(default_factory=threading.Event)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.go.set()

    def warm_up(self) -> None:
        """Start nothing."""

    def judge(self, question: WarmQuestion, tell: Callable[[str], None]) -> Evaluation:
        """Return twice as fast as eager, or raise what the kernel's text says."""
        source = question.evaluation.candidate.source.strip()
        self.asked.append(source)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.busy.set()
        if source == "wait":
            tell("waiting for the device")
        self.go.wait(PATIENCE_S)
        self.at_once -= 1
        self.judged += 1
        if source in ERRORS:
            raise ERRORS[source]
        return fake_evaluation(question.evaluation.candidate, question.task, 2.0, final=False)

    def abandon(self) -> None:
        """Let go of what is held up."""
        self.abandoned.set()
        self.go.set()

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of its own, as far as sockets and locks go."""
    folder = tmp_path / "m"
    folder.mkdir()
    monkeypatch.setattr(private_folder, "SHARED", folder)
    private_folder.private_folder.cache_clear()
    yield folder
    private_folder.private_folder.cache_clear()


@dataclass
class Warm:
    """A server in a thread of the test, and clients of it."""

    cache: Path
    stub: StubJudge
    place: WarmPlace
    thread: threading.Thread
    lines: list[str] = field(default_factory=list)

    def client(self, **more: Any) -> WarmClient:
        """Return a client of the same identity."""
        return WarmClient(self.cache, PROCESSOR.name, 600.0, self.lines.append, **more)

    def has_ended(self) -> bool:
        """Wait for the server's end."""
        self.thread.join(PATIENCE_S)
        return not self.thread.is_alive()


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Warm]]:
    """Start servers before stubs; ``identity`` and ``idle_s`` may be given."""
    cache, started = tmp_path / "cache", list[Warm]()
    monkeypatch.setattr(server, "LOOK_S", 0.01)

    def run(identity: str | None = None, idle_s: float = 600.0) -> Warm:
        place, stub = place_for(cache, PROCESSOR.name), StubJudge()
        monkeypatch.setattr(server, "WarmJudge", lambda *_: stub)
        client = WarmClient(cache, PROCESSOR.name, idle_s, print)
        begun = WarmStart(
            identity=identity or client._identity, cache_dir=str(cache), device=PROCESSOR.name, idle_s=idle_s
        )
        lock = server.take_lock(place)
        assert lock is not None
        sock = server.listen(place)
        serve = server.WarmServer(begun, place, lock)
        thread = threading.Thread(target=lambda: asyncio.run(serve.run(sock)), daemon=True)
        thread.start()
        started.append(Warm(cache, stub, place, thread))
        return started[-1]

    yield run
    for warm in started:
        warm.stub.go.set()
        warm.place.socket.unlink(missing_ok=True)
        assert warm.has_ended()


def eventually(holds: Callable[[], object]) -> bool:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return bool(holds())
