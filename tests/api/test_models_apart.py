"""A whole model through the front door, with a stand-in for the referee that verifies every kernel."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lab.fleet import FakeCluster
from tests.places import settings_in
from tests.whole.generous import Generous, stand_in, times_by_size
from tests.whole.stacks import Gate, Net
from torch import nn

import kernelwright
from kernelwright.api import OptimizeResult, models_apart, workers
from kernelwright.cli import main as command_line
from kernelwright.core.budget import Budget
from kernelwright.core.errors import LoweringError, MachineError, TaskError, UserError
from kernelwright.core.evaluation import Speedup
from kernelwright.core.events import CandidateEvaluated, Event
from kernelwright.core.places import AtPath
from kernelwright.core.request import BenchRequest
from kernelwright.remote.fleet.fleet import Fleet
from kernelwright.remote.fleet.records import WorkerOrder
from kernelwright.report.html import render_report
from kernelwright.report.story import tell
from kernelwright.report.tables import Ending
from kernelwright.report.verdict import run_verdict
from kernelwright.settings import Settings
from kernelwright.whole import profiling
from kernelwright.whole.own_process import timed_in_turn
from kernelwright.whole.step import Compose

pytestmark = pytest.mark.slow
X = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def referee(monkeypatch: pytest.MonkeyPatch) -> Generous:
    return stand_in(monkeypatch.setattr)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


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


def test_one_device_of_a_fleet_judges_the_blocks_and_the_whole(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, net = FakeCluster(["one", "two"]), Net().eval()
    order = WorkerOrder(bring="tests.whole.generous:bring", device="cpu", argument=str(tmp_path / "there"))
    monkeypatch.setattr(workers, "open_fleet", lambda *given: Fleet(cluster, order))
    monkeypatch.setattr(profiling, "_time", times_by_size)
    events: list[Event] = []
    result = optimised(settings, net, workers="ray", on_event=events.append)
    judged = [event.evaluation for event in events if isinstance(event, CandidateEvaluated)]
    assert {evaluation.device for evaluation in judged} == {"host-one/cpu"}
    assert result.apart is not None
    assert {block.name for block in result.apart.blocks if block.candidate} == {"Mlp", "Gate"}
    assert result.apart.after_ms is None  # kernels for another machine are not called here
    assert result.evaluation is not None and result.evaluation.task_id == result.task.id
    with torch.no_grad():
        torch.testing.assert_close(result.module(X), net(X))
    assert kernelwright.report(result.module).kernel_calls == 4
    n_asked = len(cluster.asked)
    assert optimised(settings, net, workers="ray").is_stored
    assert {method for _, method in cluster.asked[n_asked:]} <= {"hello", "begin", "close"}


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
        optimised(settings, on_event=stop_in_the_second, again=True)
    (ended, _) = dict.fromkeys(referee.judged)
    before = referee.judged.count(ended)
    run_id = next(line.run_id for line in kernelwright.runs(settings.store) if line.task == "Net")
    net = Net().eval()
    result = kernelwright.optimize(net, resume=run_id, settings=settings, progress=False)
    assert referee.judged.count(ended) == before and result.run_id == run_id
    assert result.apart is not None and all(block.candidate for block in result.apart.blocks)
    assert [line.task for line in kernelwright.runs(settings.store)].count(ended) == 1
    with torch.no_grad():
        torch.testing.assert_close(result.module(X), net(X))
    n_judged = len(referee.judged)
    assert kernelwright.optimize(resume=run_id, settings=settings, progress=False).winner == result.winner
    assert len(referee.judged) == n_judged


def test_kill_9_in_the_second_block_keeps_the_first_whatever_a_profile_says_then(
    tmp_path: Path, referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stack.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, *map(str, (Path(__file__).parents[2], tmp_path))])
    assert killed.returncode == -9
    (run,) = (line for line in kernelwright.runs(settings.store) if line.task == "stack")
    monkeypatch.setattr(models_apart, "find_blocks", lambda parts: pytest.fail("shared anew"))
    for name in ("cache", "data"):
        monkeypatch.setenv(f"KERNELWRIGHT_{name.upper()}", str(tmp_path / name))
    assert command_line.run(["runs", "resume", run.run_id, "--store", settings.store]) == 0
    assert (tmp_path / "stack_fast" / "blocks").is_dir()
    assert referee.judged and "Block" not in referee.judged


KILLED = """
import os, signal, sys
from pathlib import Path
root, folder = map(Path, sys.argv[1:])
sys.path.insert(0, str(root))
import kernelwright
from kernelwright.core.budget import Budget
from tests.places import settings_in
from tests.whole.generous import stand_in

made = stand_in(setattr)
settings = settings_in(folder)

def kill(event):
    if event.kind == "candidate_evaluated" and len(set(made.judged)) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

how = {"budget": Budget(evaluations=4), "settings": settings, "progress": False, "mode": "eval"}
kernelwright.optimize(folder / "stack.py", on_event=kill, **how)
"""


def test_a_block_that_fails_loses_no_other(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = models_apart.finish

    def fail_in_gates(begun: Any, **how: Any) -> Any:
        if begun.spec.task.name == "Gate":
            raise MachineError("out of memory")
        return finish(begun, **how)

    monkeypatch.setattr(models_apart, "finish", fail_in_gates)
    result = optimised(settings)
    assert result.apart is not None and result.composition is not None
    notes = {block.name: block.note for block in result.apart.blocks}
    assert notes == {"Mlp": "", "Gate": "the machine failed: out of memory; --again measures anew"}
    with pytest.raises(MachineError, match="out of memory"):  # and nothing says that it cannot be faster
        optimised(settings, nn.Sequential(Gate(32), Gate(32)).eval())


def test_a_kernel_that_cannot_be_in_the_model_is_left_out(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    print_model = models_apart.print_model

    def refuse_gates(task: Any, kernels: Any, *args: Any, **named: Any) -> Any:
        if "last" in kernels:
            raise LoweringError("two names are one")
        return print_model(task, kernels, *args, **named)

    monkeypatch.setattr(models_apart, "print_model", refuse_gates)
    result = optimised(settings)
    assert result.apart is not None and result.composition is not None
    notes = {block.name: block.note for block in result.apart.blocks}
    assert notes == {"Mlp": "", "Gate": "its kernel cannot be put into the model: two names are one"}


def test_where_torch_compile_is_faster_the_model_stays_as_it_is(
    referee: Generous, settings: Settings, tmp_path: Path
) -> None:
    referee.over_compile = referee.over_compile_alone = 0.5
    net = Net().eval()
    result = optimised(settings, net)
    assert result.module is net and result.composition is None and result.source is None
    story = tell(stored.event for stored in result.store.iter_events(result.run_id))
    verdict = run_verdict(story)
    assert "stays as it is" in verdict.headline
    assert any("torch.compile of the whole model is faster" in line for line in verdict.lines)
    with pytest.raises(UserError, match="unchanged"):
        result.save(tmp_path / "saved")


@pytest.mark.parametrize("here", [0.9, 1.2], ids=["slower than the original", "slower than torch.compile"])
def test_a_model_that_its_own_python_makes_slow_is_not_delivered_with_kernels(
    here: float, referee: Generous, settings: Settings
) -> None:
    referee.here = Speedup(baseline="eager", ratio=here, low=0.98 * here, high=1.02 * here)
    result = optimised(settings)
    assert result.apart is not None
    ways = result.apart.compositions
    assert {way.is_compiled for way in ways if way.kinds} == {False, True}
    assert all(way.in_process == (referee.here if way.kinds else None) for way in ways)
    assert result.composition is None or not result.composition.kinds


def test_the_model_as_one_program_is_delivered_where_that_is_fastest(
    referee: Generous, settings: Settings, tmp_path: Path
) -> None:
    referee.as_one = "Net", 3.0
    net = Net().eval()
    result = optimised(settings, net)
    assert result.composition is not None and result.composition.words == "as one program"
    assert result.speedup == pytest.approx(3.0) and result.patched is None and result.delivery is not None
    for module in (result.module, kernelwright.load(result.save(tmp_path / "saved"))):
        with torch.no_grad():
            torch.testing.assert_close(module(X), net(X))
        assert kernelwright.report(module).kernel_calls == 1 and type(module).__name__ == "Net"
    verdict = run_verdict(tell(stored.event for stored in result.store.iter_events(result.run_id)))
    assert "one program of the whole model" in verdict.lines[0]


def test_a_model_of_too_many_layers_is_not_written_as_one_program(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_apart, "MOST_LAYERS", 5)
    result = optimised(settings)
    assert result.apart is not None and not any(way.is_one for way in result.apart.compositions)


def test_a_way_that_torch_compile_does_not_take_in_here_is_left_out(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stub: torch.compile leaves the models as they are, and these fail."""

    def refuse(model: nn.Module) -> nn.Module:
        model.register_forward_pre_hook(lambda *given: 1 / 0)
        return model

    monkeypatch.setattr(models_apart, "timed_in_turn", timed_in_turn)
    monkeypatch.setattr(models_apart, "compile_whole", refuse)
    result = optimised(settings)
    assert result.apart is not None
    ways = result.apart.compositions
    assert ways and not any(way.kinds and way.is_compiled for way in ways)
    assert any(way.in_process is not None for way in ways)


def test_where_kernels_lose_to_torch_compile_the_model_is_delivered_compiled(
    referee: Generous, settings: Settings, tmp_path: Path
) -> None:
    referee.over_compile, referee.over_compile_alone = 0.5, 1.0
    net = Net().eval()
    result = optimised(settings, net)
    assert result.composition is not None and result.composition.words == "torch.compile alone"
    assert all(block.candidate for block in result.apart.blocks)  # type: ignore[union-attr]
    for module in (result.module, kernelwright.load(result.save(tmp_path / "saved"))):
        module.compile(backend="eager")
        with torch.no_grad():
            torch.testing.assert_close(module(X), net(X))
        assert kernelwright.report(module).kernel_calls == 0 and type(module).__name__ == "Net"
    verdict = run_verdict(tell(stored.event for stored in result.store.iter_events(result.run_id)))
    assert "torch.compile of the model as it is, without a kernel" in verdict.lines[0]


def test_where_seconds_end_before_torch_compile_alone_is_judged_it_still_gets_a_final(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stub: the seconds end after the first way."""
    run = Compose.run

    def first_alone(step: Compose, *given: Any) -> None:
        run(replace(step, candidates=step.candidates[:1]), *given)

    monkeypatch.setattr(Compose, "run", first_alone)
    referee.over_compile, referee.over_compile_alone, referee.speedup_alone = 0.5, 1.0, 2.5
    result = optimised(settings)
    assert result.composition is not None and result.composition.words == "torch.compile alone"
    assert result.apart is not None and len(result.apart.compositions) > 1


def test_a_module_of_one_kernel_is_delivered_compiled_where_that_is_faster(
    referee: Generous, settings: Settings, tmp_path: Path
) -> None:
    referee.over_compile, referee.over_compile_alone, referee.speedup_alone = 0.8, 1.0, 2.5
    gate = Gate(32).eval()
    result = optimised(settings, gate)
    assert result.speedup == pytest.approx(2.5) and result.delivery is None
    for module in (result.module, kernelwright.load(result.save(tmp_path / "saved"))):
        module.compile(backend="eager")
        with torch.no_grad():
            torch.testing.assert_close(module(X), gate(X))
        assert kernelwright.report(module).kernel_calls == 0 and type(module).__name__ == "Gate"
    assert optimised(settings, gate).is_stored
    kernel = optimised(settings, gate, blocks=False)
    assert kernel.speedup == pytest.approx(2.0) and kernel.delivery is not None


def test_a_bench_delivers_what_was_put_together(
    referee: Generous, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "stack.py").write_text(SOURCE, encoding="utf-8")
    request = BenchRequest(sources=(AtPath(path=str(tmp_path)),), budget=Budget(evaluations=2))
    (row,) = kernelwright.api.run_bench(request, title="t", settings=settings, progress=False).rows
    assert row.ending is Ending.REARRANGED and row.is_apart  # all kernels are alike: torch's calls came first
    n_judged = len(referee.judged)
    again = request.resumed("t")
    assert isinstance(again, BenchRequest)
    assert kernelwright.api.run_bench(again, title="t", settings=settings, progress=False).rows == (row,)
    assert len(referee.judged) == n_judged


def test_where_no_block_has_a_kernel_torch_compile_is_tried_all_the_same(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise TaskError("no contract")

    referee.speedup_alone = 2.5
    monkeypatch.setattr(models_apart, "make_kernels", fail)
    result = optimised(settings)
    assert result.composition is not None and not result.composition.kinds
    assert result.apart is not None and {block.candidate for block in result.apart.blocks} == {None}
    verdict = run_verdict(tell(stored.event for stored in result.store.iter_events(result.run_id)))
    assert "its kernel cannot be put into the model: no contract" in verdict.lines[0]


def test_a_way_that_cannot_be_written_loses_no_other(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    print_model = models_apart.print_model

    def refuse_compiled(*args: Any, is_compiled: bool = False) -> Any:
        if is_compiled:
            raise LoweringError("two names are one")
        return print_model(*args, is_compiled=is_compiled)

    monkeypatch.setattr(models_apart, "print_model", refuse_compiled)
    result = optimised(settings)
    assert result.composition is not None and not result.composition.is_compiled and result.composition.kinds


def test_seconds_that_end_before_the_final_are_said(
    referee: Generous, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.runs.loop._Loop._final", lambda run, context: (None, None))
    begun = optimised(settings, nn.Sequential(Gate(32), Gate(32)).eval())
    verdict = run_verdict(tell(stored.event for stored in begun.store.iter_events(begun.run_id)))
    assert verdict.headline == "Out of time before the final measurement: the model stays as it is"
    assert "Allow more seconds for a final measurement." in verdict.lines


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

class Tail(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = 0.5

    def forward(self, x):
        return torch.sigmoid(x) - self.slope * torch.tanh(x)

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))
        self.tail = Tail()

    def forward(self, x):
        return self.tail(self.blocks(x))

def get_inputs():
    return [torch.randn(8, 32)]

def get_init_inputs():
    return [32]
"""
