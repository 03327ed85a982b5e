"""A command line in a folder of its own, with a stub where the engine would be."""

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lab.sample_run import make_store

from kernelwright.api import playing
from kernelwright.cli.main import run
from kernelwright.core.budget import Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import CandidateEvaluated, Event, RunFinished
from kernelwright.core.roofline import Peaks
from kernelwright.core.run import RunState
from kernelwright.store.base import Store

PEAKS = Peaks(
    device="Example CPU",
    n_threads=2,
    bandwidth_gbps=18.0,
    cache_bandwidth_gbps=60.0,
    cache_bytes=1 << 20,
    fma_gflops=150.0,
    source="made up for tests",
)
TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 64)]


def get_init_inputs():
    return []
"""


@dataclass
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as the one JSON document that it must be."""
        return json.loads(self.out)


@dataclass(frozen=True)
class StubOutcome:
    """Stands in for the engine's RunOutcome."""

    run_id: str
    winner: Candidate | None
    evaluation: Evaluation | None
    reason: str
    spent: Spent = field(default_factory=Spent)
    answers: dict[str, int] = field(default_factory=dict)
    every_call_failed: bool = False


@dataclass
class StubEngine:
    """Stands in for the engine: plays a made-up run into the store; measures nothing."""

    has_winner: bool = True
    error: KernelwrightError | None = None
    error_after: int = 0
    """Events that come before the error."""
    interrupt_after: int | None = None
    is_final_bad: bool = False
    profile: Any = None
    """What the last run was to be profiled with."""
    played: list[str] = field(default_factory=list)

    def carry_on(
        self,
        run_id: str,
        *,
        store: Store,
        on_event: Callable[[Event], None],
        referee: object = None,
        profile: object = None,
        settings: object = None,
        around: object = None,
    ) -> StubOutcome:
        """Append the made-up events, or fail as the test wants it."""
        self.played.append(store.get_run(run_id).spec.task.name)
        self.profile = profile
        made_up = make_store(has_winner=self.has_winner)
        for candidate in made_up.candidates.values():
            store.add_candidate(run_id, candidate)
        n_there = sum(1 for _ in store.iter_events(run_id))
        for i, event in enumerate(made_up.events):
            if self.error is not None and i == self.error_after:
                store.set_state(run_id, RunState.FAILED, failure=str(self.error))
                raise self.error
            if i == self.interrupt_after:
                self.interrupt_after = None
                raise KeyboardInterrupt
            event = self._spoilt(event)
            if i >= n_there:
                store.append_event(run_id, event)
            on_event(event)
        store.set_state(run_id, RunState.FINISHED)
        finished = next(e for e in made_up.events if isinstance(e, RunFinished))
        winner = made_up.candidates[finished.winner] if finished.winner else None
        return StubOutcome(run_id, winner, self._spoilt(finished).evaluation, finished.reason)

    def _spoilt(self, event: Any) -> Any:
        is_final = isinstance(event, RunFinished) or (
            isinstance(event, CandidateEvaluated) and event.evaluation.is_final
        )
        if not (self.is_final_bad and is_final):
            return event
        broken = [e for e in make_store().events if isinstance(e, CandidateEvaluated)][2].evaluation
        return event.model_copy(update={"evaluation": broken})


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run a command line in a fresh folder with a fresh store."""
    monkeypatch.chdir(tmp_path)
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"KERNELWRIGHT_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("kernelwright.machine.probe.measure_peaks", lambda cache_dir, *, refresh=False: PEAKS)

    def call(*arguments: str | Path) -> Result:
        words = [str(word) for word in arguments]
        monkeypatch.setattr(sys, "argv", ["kernelwright", *words])
        code = run(words)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    """A task file."""
    file = tmp_path / "relu.py"
    file.write_text(TASK, encoding="utf-8")
    return file


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> StubEngine:
    """Put the stub where commands look for the engine."""
    stub = StubEngine()
    monkeypatch.setattr(playing, "carry_on", stub.carry_on)
    monkeypatch.setattr(playing, "open_referee", lambda *_, **__: nullcontext())
    return stub
