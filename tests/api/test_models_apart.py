"""A whole model through the front door, with a stand-in for the referee that verifies every kernel."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.whole.stacks import Gate, Net
from torch import nn

import kernelwright
from kernelwright.api import OptimizeResult, playing, starting
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation, Speedup
from kernelwright.core.events import CandidateEvaluated, Event
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.report.html import render_report
from kernelwright.report.story import tell
from kernelwright.report.verdict import run_verdict
from kernelwright.settings import Settings
from kernelwright.testing.fake_run import PEAKS, fake_evaluation
from kernelwright.whole import profiling

pytestmark = pytest.mark.slow
X = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


class Generous:
    """A stand-in: twice as fast as eager, and ``over_compile`` times as fast as torch.compile."""

    def __init__(self, over_compile: float = 1.5) -> None:
        self.over_compile = over_compile
        self.judged: list[str] = []
        self.task: Task | None = None
        self.baseline_ms: Mapping[str, float] = {"default": 10.0}

    def open(self, task: Task) -> "Generous":
        self.task = task
        return self

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        assert self.task is not None
        self.judged.append(self.task.name)
        made = fake_evaluation(candidate, self.task, 2.0, final=final)
        ratio = self.over_compile
        over = Speedup(baseline="torch_compile", ratio=ratio, low=0.98 * ratio, high=1.02 * ratio)
        (result,) = made.results
        compared = result.model_copy(update={"speedups": (*result.speedups, over)})
        return made.model_copy(update={"results": (compared,), "referee": REFEREE_VERSION})

    def __enter__(self) -> "Generous":
        return self

    def __exit__(self, *exc: object) -> None: ...


@pytest.fixture
def referee(monkeypatch: pytest.MonkeyPatch) -> Generous:
    made = Generous()
    monkeypatch.setattr(playing, "open_referee", lambda *args, **named: made)
    monkeypatch.setattr(starting, "machine_for", lambda *args: Machine(cores=2, peaks=PEAKS))
    monkeypatch.setattr(profiling, "_time", times_by_size)
    return made


def times_by_size(model: nn.Module, calls: object, names: dict[int, str]) -> profiling.Times:
    """Stub: a submodule takes a millisecond for each module in it."""
    return float(len(list(model.modules()))), {
        path: float(len(list(model.get_submodule(path).modules()))) for path in names.values()
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=tmp_path / "cache", data_dir=tmp_path / "data", store=str(tmp_path / "runs.db"))


def optimised(settings: Settings, net: nn.Module | None = None, **options: Any) -> OptimizeResult:
    return kernelwright.optimize(
        net or Net().eval(), (X,), budget=Budget(evaluations=4), settings=settings, progress=False, **options
    )


def test_each_kind_of_block_is_optimised_once_and_the_whole_is_judged(
    tmp_path: Path, referee: Generous, settings: Settings
) -> None:
    net = Net().eval()
    result = optimised(settings, net)
    runs = sorted(line.task for line in kernelwright.runs(settings.store))
    assert runs == ["Gate", "Mlp", "Net"]
    assert result.apart is not None and result.composition is not None and result.evaluation is not None
    by_name = {block.name: block for block in result.apart.blocks}
    assert by_name["Mlp"].paths == ("layers.0", "layers.1", "layers.2") and by_name["Gate"].paths == ("last",)
    assert result.evaluation.is_final and result.evaluation.task_id == result.task.id
    with torch.no_grad():
        torch.testing.assert_close(result.module(X), net(X))
    assert kernelwright.report(result.module).kernel_calls == 4
    again = kernelwright.load(result.save(tmp_path / "saved"))
    with torch.no_grad():
        assert torch.equal(again(X), result.module(X))
    page = render_report(result.store, result.run_id)
    assert "Where the time goes, block by block" in page and "layers.0, layers.1, layers.2" in page
    story = tell(stored.event for stored in result.store.iter_events(result.run_id))
    assert "kernels in 4 blocks" in run_verdict(story).lines[0]


def test_the_second_time_the_store_answers(referee: Generous, settings: Settings) -> None:
    first = optimised(settings)
    n_judged = len(referee.judged)
    second = optimised(settings, Net().eval())  # other weights: the same question
    assert second.is_stored and not first.is_stored
    assert second.run_id == first.run_id and len(referee.judged) == n_judged
    assert "of the store" in repr(second)
    with torch.no_grad():
        second.module(X)
    assert kernelwright.report(second.module).kernel_calls == 4
    third = optimised(settings, again=True)
    assert not third.is_stored and third.run_id != first.run_id and len(referee.judged) > n_judged


def test_an_interruption_keeps_the_blocks_that_have_ended(referee: Generous, settings: Settings) -> None:
    class Stopped(BaseException):
        """Stands for kill -9."""

    def stop_in_the_second(event: Event) -> None:
        if isinstance(event, CandidateEvaluated) and len(set(referee.judged)) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        optimised(settings, on_event=stop_in_the_second)
    (ended, broken) = dict.fromkeys(referee.judged)
    before = referee.judged.count(ended)
    result = optimised(settings)
    assert referee.judged.count(ended) == before
    assert result.apart is not None
    stored = {block.name: block.is_stored for block in result.apart.blocks}
    assert stored == {ended: True, broken: False}
    assert [line.task for line in kernelwright.runs(settings.store)].count(ended) == 1


def test_where_torch_compile_is_faster_the_model_stays_as_it_is(
    referee: Generous, settings: Settings, tmp_path: Path
) -> None:
    referee.over_compile = 0.5
    net = Net().eval()
    result = optimised(settings, net)
    assert result.module is net and result.composition is None and result.source is None
    story = tell(stored.event for stored in result.store.iter_events(result.run_id))
    verdict = run_verdict(story)
    assert "stays as it is" in verdict.headline
    assert any("torch.compile of the whole model is faster" in line for line in verdict.lines)
    with pytest.raises(UserError, match="unchanged"):
        result.save(tmp_path / "saved")


def test_what_is_asked_decides(referee: Generous, settings: Settings) -> None:
    assert optimised(settings, Gate(32).eval()).apart is None
    two = nn.Sequential(Gate(32), Gate(32)).eval()
    assert optimised(settings, two, blocks=False).apart is None
    with pytest.raises(UserError, match="--blocks: a model cannot be taken apart with --weights frozen"):
        optimised(settings, blocks=True, weights="frozen")


def test_a_file_is_taken_apart_too(referee: Generous, settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "stack.py"
    path.write_text(SOURCE, encoding="utf-8")
    result = kernelwright.optimize(
        path, budget=Budget(evaluations=2), settings=settings, progress=False, mode="eval"
    )
    assert result.apart is not None and result.composition is not None
    folder = result.save(tmp_path / "saved")
    x = torch.randn(8, 32)
    with torch.no_grad():
        expected = result.module(x)
        assert torch.equal(kernelwright.load(folder)(x), expected)


SOURCE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        return torch.tanh(x * self.scale) + torch.relu(x)

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))

    def forward(self, x):
        return self.blocks(x)

def get_inputs():
    return [torch.randn(8, 32)]

def get_init_inputs():
    return [32]
"""
