"""The library's functions: what they ask for and what they give; the engine and the referee are stubs."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from lab.sample_run import KERNEL, verified
from tests.cli.conftest import PEAKS, TASK, StubEngine
from torch import nn

import kernelwright
from kernelwright.api import fresh, playing
from kernelwright.core.candidate import Candidate
from kernelwright.core.digest import content_digest
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.places import AsSaved, AsText
from kernelwright.core.task import Task, Workload
from kernelwright.report.reproduce import command_line, request_of
from kernelwright.settings import load_settings
from kernelwright.tasks.counted import CountedWork
from kernelwright.tasks.places import load_place


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a store and a configuration of the test's own, with made-up peaks."""
    monkeypatch.chdir(tmp_path)
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"KERNELWRIGHT_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("kernelwright.machine.probe.measure_peaks", lambda cache_dir, *, refresh=False: PEAKS)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> StubEngine:
    """Put the stub where the engine would be."""
    stub = StubEngine()
    monkeypatch.setattr(playing, "carry_on", stub.carry_on)
    monkeypatch.setattr(playing, "open_referee", lambda *_, **__: nullcontext())
    return stub


class Scale(nn.Module):
    """Takes a second input by name, too."""

    def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return x * by


def test_every_public_name_is_there() -> None:
    assert kernelwright.__all__ == sorted(kernelwright.__all__)
    for name in kernelwright.__all__:
        assert getattr(kernelwright, name) is not None
    assert callable(kernelwright.runs), "the package of that name can be called"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kernelwright.nothing


def test_source_text_a_path_and_a_suite_task_are_all_tasks(engine: StubEngine, tmp_path: Path) -> None:
    (tmp_path / "relu.py").write_text(TASK, encoding="utf-8")
    for what, name in ((TASK, "task"), ("relu.py", "relu"), (tmp_path / "relu.py", "relu")):
        result = kernelwright.optimize(what)
        assert result.store.get_run(result.run_id).spec.task.name == name
        assert result.speedup is not None and result.reason.startswith("every move")
        assert repr(result).startswith(f"<OptimizeResult '{name}': 6.00x")
    suite = kernelwright.optimize("suite:27_Softmax")
    assert suite.store.get_run(suite.run_id).spec.task.name == "27_Softmax"


def test_keywords_reach_the_run_and_say_how_to_do_it_again(engine: StubEngine) -> None:
    result = kernelwright.optimize(
        TASK, seed=7, recipe="stark", budget=kernelwright.Budget(evaluations=3), baselines=["eager"],
        tolerance="tf32", workloads=[Workload(name="small", overrides={"batch_size": 2})], cold=True,
    )  # fmt: skip
    spec = result.store.get_run(result.run_id).spec
    assert (spec.seed, spec.recipe, spec.budget.evaluations) == (7, "stark", 3)
    assert (spec.baselines, spec.task.tolerance, spec.is_cold) == (("eager",), "tf32", True)
    assert spec.environment["machine.bandwidth_gbps"] == 18.0
    assert spec.environment["kernelwright_source"] == content_digest()
    again = command_line(spec)
    for words in ("--baseline eager", "--workload small:batch_size=2", "--cold", "--seed 7"):
        assert words in again
    assert request_of(spec).task == AsText(name="task", source=TASK)


def test_a_module_with_keyword_inputs_is_saved_and_can_be_asked_for_again(engine: StubEngine) -> None:
    engine.has_winner = False
    module, x = Scale(), torch.ones(4)
    result = kernelwright.optimize(module, (x,), kwargs={"by": x})
    assert result.module is module and result.speedup is None and "unchanged" in repr(result)
    with pytest.raises(kernelwright.UserError, match=r"look at result\.speedup first"):
        result.save("fast")
    task = result.store.get_run(result.run_id).spec.task
    place = request_of(result.store.get_run(result.run_id).spec).task
    assert isinstance(place, AsSaved) and load_place(place) == task
    with pytest.raises(kernelwright.TaskError, match="missing a required argument: 'by'"):
        kernelwright.optimize(module, (x,), kwargs={})


def test_an_interrupted_run_is_resumed_by_its_id(engine: StubEngine) -> None:
    engine.interrupt_after = 9
    with pytest.raises(KeyboardInterrupt):
        kernelwright.optimize(TASK, seed=5)
    (line,) = kernelwright.runs()
    assert line.state == "interrupted"
    result = kernelwright.optimize(resume=line.run_id[:-1], progress=False)
    assert result.run_id == line.run_id and result.speedup is not None
    assert [kept.state for kept in kernelwright.runs()] == ["finished"]


def test_configuration_gives_defaults_and_keywords_win(engine: StubEngine, tmp_path: Path) -> None:
    (tmp_path / "kernelwright.toml").write_text('recipe = "stark"\nseed = 3\n', encoding="utf-8")
    first = kernelwright.optimize(TASK)
    spec = first.store.get_run(first.run_id).spec
    assert (spec.recipe, spec.seed) == ("stark", 3)
    second = kernelwright.optimize(TASK, recipe="refine")
    spec = second.store.get_run(second.run_id).spec
    assert (spec.recipe, spec.seed) == ("refine", 3)


def test_progress_is_silent_unless_somebody_looks(
    engine: StubEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    kernelwright.optimize(TASK)
    kernelwright.optimize(TASK, progress=False)
    assert capsys.readouterr().err == ""
    kernelwright.optimize(TASK, progress=True)
    assert "search ended: every move" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"what": "missing.py"}, "missing.py: no such file"),
        ({"what": "suite:nothing"}, "the suite has no task 'nothing'"),
        ({"what": TASK, "recipe": "magic"}, "unknown recipe 'magic'"),
        ({"what": TASK, "team": "nobody"}, "unknown team 'nobody'"),
        ({"what": TASK, "models": "openai:x"}, "has no seat for a model"),
        ({"what": TASK, "tolerance": "loose"}, "--tolerance"),
        ({"what": TASK, "findings": "nowhere"}, "--findings: nowhere is no folder"),
        ({"what": TASK, "inputs": (torch.ones(1),)}, "inputs and kwargs are a module's"),
        ({"what": None}, "optimize takes a file"),
        ({"resume": "zzz"}, "no run 'zzz'"),
        ({"resume": "zzz", "seed": 1, "baselines": ("eager",)}, "leave seed, baselines out"),
        ({"resume": "zzz", "what": TASK}, "leave what out"),
        ({"what": Scale()}, "Scale: give inputs: a tuple"),
    ],
)
def test_what_cannot_be_is_one_clear_line(engine: StubEngine, how: dict[str, Any], said: str) -> None:
    with pytest.raises(kernelwright.UserError, match=said) as caught:
        kernelwright.optimize(**how)
    assert "\n" not in str(caught.value)
    assert engine.played == []


class StubReferee:
    """Stands in for the referee and its session."""

    def __init__(self, *verdicts: Evaluation) -> None:
        self.left = list(verdicts)

    def __call__(self, *_: Any, **__: Any) -> "StubReferee":
        return self

    def __enter__(self) -> "StubReferee":
        return self

    def __exit__(self, *error: object) -> None: ...

    def open(self, task: Task) -> "StubReferee":
        return self

    def count_work(self, task: Task) -> CountedWork:
        return CountedWork()

    def evaluate(self, candidate: Candidate, **how: Any) -> Evaluation:
        return self.left.pop(0)


def test_kernels_are_judged_alone_or_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = verified(Candidate(source=KERNEL), 3.0), verified(Candidate(source=KERNEL), 1.6)
    monkeypatch.setattr(fresh, "open_referee", StubReferee(fast))
    verdict = kernelwright.evaluate(TASK, KERNEL)
    assert verdict.is_verified and verdict.check is None and verdict.geomean_speedup() is not None
    assert verdict._repr_html_() == "<b>verified</b>: 6.00x over eager"
    monkeypatch.setattr(fresh, "open_referee", StubReferee(slow, fast))
    found = kernelwright.compare_kernels(TASK, {"mine": KERNEL, "theirs": KERNEL})
    assert found.best == "theirs" and found.is_success and "theirs" in found._repr_html_()
    with pytest.raises(kernelwright.UserError, match="evaluate takes no 'speed'"):
        kernelwright.evaluate(TASK, KERNEL, speed=3)


def test_a_bench_of_tasks_gives_rows_tables_and_files(engine: StubEngine, tmp_path: Path) -> None:
    (tmp_path / "relu.py").write_text(TASK, encoding="utf-8")
    result = kernelwright.bench("relu.py", name="trial", budget=kernelwright.Budget(evaluations=3))
    assert [row.ending for row in result.rows] == ["faster"] and result.is_success
    assert "1 tasks, 1 faster" in repr(result) and "<table>" in result._repr_html_()
    assert {path.name for path in result.save("there")} == {
        "results.json",
        "results.md",
        "results.html",
        "results.svg",
    }
    with pytest.raises(kernelwright.UserError, match="there is an experiment 'trial' already"):
        kernelwright.bench("relu.py", name="trial")


def test_settings_in_hand_are_used_instead_of_the_environments(engine: StubEngine, tmp_path: Path) -> None:
    store = kernelwright.open_store(tmp_path / "other.db")
    result = kernelwright.optimize(TASK, store=store, settings=load_settings())
    assert result.store is store and len(kernelwright.runs(store)) == 1 and len(kernelwright.runs()) == 0
