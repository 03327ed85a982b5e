"""Runs of language-model teams against a real local server, judged by a scripted referee."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab.servers.playing_model import REFERENCE, ScriptedReferee

from kernelwright import api
from kernelwright.agents.problem import Problem
from kernelwright.api import playing
from kernelwright.cli.main import run
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec
from kernelwright.runs.loop import RunOutcome
from kernelwright.runs.prepare import prepare_on
from kernelwright.settings import Settings, load_settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import PEAKS, FakeReferee

MACHINE = Machine(cores=2, vector_bytes=32, peaks=PEAKS)
KEY = "sk-e2e-0123456789-secret"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a store and a key of the test's own; no key of the machine's."""
    monkeypatch.chdir(tmp_path)
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"KERNELWRIGHT_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(autouse=True)
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stub: verdicts are scripted, and each look for wrong elements starts a process."""
    monkeypatch.setattr(playing, "explain", lambda task, candidate, found, *, device: ())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


@pytest.fixture
def settings() -> Settings:
    return load_settings()


_PREPARED: dict[str, tuple[Problem, str | None]] = {}


def prepared(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Prepare a task on made-up peaks, once for all tests: capture is most of what a run here costs."""
    if spec.task.id not in _PREPARED:
        _PREPARED[spec.task.id] = prepare_on(spec, MACHINE)
    return _PREPARED[spec.task.id]


Play = Callable[[RunSpec, FakeReferee], RunOutcome]


@pytest.fixture
def play(store: Store, settings: Settings) -> Play:
    """Play a run with the real team and client, on made-up peaks."""

    def start(spec: RunSpec, referee: FakeReferee) -> RunOutcome:
        return api.play(
            spec,
            store=store,
            settings=settings,
            referee=referee,
            prepare=prepared,
        )

    return start


@dataclass
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def referee(monkeypatch: pytest.MonkeyPatch) -> ScriptedReferee:
    """Put a scripted referee and made-up peaks where commands look for the real ones."""
    scripted = ScriptedReferee(lambda source: 1.5)
    monkeypatch.setattr(playing, "open_referee", lambda *_, **__: scripted)
    monkeypatch.setattr("kernelwright.machine.probe.measure_peaks", lambda cache_dir, *, refresh=False: PEAKS)
    return scripted


@pytest.fixture
def optimize(
    referee: ScriptedReferee, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run ``kernelwright optimize relu_sum.py`` with more words."""
    Path("relu_sum.py").write_text(REFERENCE, encoding="utf-8")

    def call(*words: str) -> Result:
        line = ["optimize", "relu_sum.py", *words]
        monkeypatch.setattr(sys, "argv", ["kernelwright", *line])
        code = run(line)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call
