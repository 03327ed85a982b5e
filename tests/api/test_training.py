"""``with_backward`` through the front door, with a stand-in for the referee that verifies every kernel."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.places import settings_in
from tests.whole.generous import Generous
from torch import nn

import kernelwright
from kernelwright.api import OptimizeResult, playing, starting
from kernelwright.api.training import step_speedup
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.machine import Machine
from kernelwright.core.request import RunRequest
from kernelwright.core.task import Task
from kernelwright.settings import Settings
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        return torch.tanh(x * self.scale)


def get_inputs():
    return [torch.randn(4, 16)]


def get_init_inputs():
    return [16]
"""
X = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))


class Scaled(nn.Module):
    """Has one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.scale)


class GenerousTwice(Generous):
    """A stand-in with a speedup of each direction."""

    forward, backward = 4.0, 4.0

    @property
    def speedup(self) -> float:  # type: ignore[override]
        assert self.task is not None
        return self.backward if self.task.name.endswith("_backward") else self.forward


@pytest.fixture
def referee(monkeypatch: pytest.MonkeyPatch) -> GenerousTwice:
    made = GenerousTwice()
    monkeypatch.setattr(playing, "open_referee", lambda *args, **named: made)
    monkeypatch.setattr(starting, "machine_for", lambda *args: Machine(cores=2, peaks=PEAKS))
    return made


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HOME", str(tmp_path))
    return settings_in(tmp_path)


def optimised(settings: Settings, what: Any, **options: Any) -> OptimizeResult:
    given = (X,) if isinstance(what, nn.Module) else None
    return kernelwright.optimize(
        what,
        given,
        budget=Budget(evaluations=2),
        settings=settings,
        progress=False,
        with_backward=True,
        **options,
    )


def gradient(module: Any) -> torch.Tensor:
    module.zero_grad()
    module(X).square().sum().backward()
    found: torch.Tensor = module.scale.grad
    return found


@pytest.mark.slow
def test_both_are_searched_delivered_and_saved(
    referee: GenerousTwice, settings: Settings, tmp_path: Path
) -> None:
    original = Scaled()
    result = optimised(settings, original)
    assert sorted(line.task for line in kernelwright.runs(settings.store)) == ["Scaled", "Scaled_backward"]
    back = result.backward
    assert back is not None and back.winner is not None and back.note.startswith("by a kernel")
    assert back.step == pytest.approx(1 / (0.25 + 1 / 3.92))
    fast: Any = result.module
    torch.testing.assert_close(gradient(fast), gradient(original))
    assert fast.report().backward_calls == 1
    again: Any = kernelwright.load(result.save(tmp_path / "saved"))
    torch.testing.assert_close(gradient(again), gradient(original))
    assert again.report().backward_calls == 1
    second = optimised(settings, Scaled())
    assert second.is_stored and second.backward is not None and second.backward.run_id == back.run_id


@pytest.mark.slow
def test_a_file_is_trained_too(referee: GenerousTwice, settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "scaled.py"
    path.write_text(SOURCE, encoding="utf-8")
    result = optimised(settings, path)
    assert result.backward is not None and result.backward.winner is not None, result.backward
    expected = gradient(result.module)
    again: Any = kernelwright.load(result.save(tmp_path / "saved"))
    torch.testing.assert_close(gradient(again), expected)
    assert again.report().backward_calls == 1


@pytest.mark.slow
def test_where_a_step_is_no_faster_the_original_computes_gradients(
    referee: GenerousTwice, settings: Settings
) -> None:
    referee.forward, referee.backward = 1.5, 1.5
    result = optimised(settings, Scaled())
    assert result.winner is not None and result.backward is not None and result.backward.winner is None
    assert "forward and backward together are no faster" in result.backward.note
    fast: Any = result.module
    with pytest.warns(UserWarning, match="gradients"):
        gradient(fast)
    assert fast.report().original_calls == 1


@pytest.mark.slow
def test_what_cannot_be_captured_says_why_and_is_delivered_as_ever(
    referee: GenerousTwice, settings: Settings
) -> None:
    module = nn.Sequential(Scaled(), nn.BatchNorm1d(16)).train()
    result = optimised(settings, module)
    assert result.winner is not None and result.backward is not None
    assert result.backward.note.startswith("by the original, as a call changes 1.num_batches_tracked")
    assert "\n" not in result.backward.note


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "frozen"}, "with --weights frozen"),
        ({"blocks": True}, "--with-backward"),
        ({"record": "somewhere"}, "with --record"),
    ],
)
def test_options_that_exclude_it_are_refused_in_one_line(
    options: dict[str, Any], words: str, referee: GenerousTwice, settings: Settings
) -> None:
    with pytest.raises(UserError, match=words):
        optimised(settings, Scaled(), **options)
    assert list(kernelwright.runs(settings.store)) == []


def test_half_of_the_budget_is_for_the_gradients() -> None:
    whole = Budget(evaluations=5, model_calls=1, usd=3.0, seconds=61)
    assert whole.halved() == Budget(evaluations=2, model_calls=1, usd=1.5, seconds=30.5)


def test_the_command_line_says_it() -> None:
    request = RunRequest.model_validate(
        {"task": {"kind": "suite", "name": "27_Softmax"}, "with_backward": True}
    )
    assert "--with-backward" in request.command_line()


def test_a_step_counts_the_forward_and_the_doubt_of_the_backward() -> None:
    task = Task(name="one", source=SOURCE)
    ahead = fake_evaluation(Candidate(source="a"), task, 4.0)
    back = fake_evaluation(Candidate(source="b"), task, 2.0)
    assert step_speedup(ahead, back) == pytest.approx(1 / (0.25 + 1 / 1.96))
    assert step_speedup(ahead, back.model_copy(update={"results": ()})) is None
