"""``kernelwright compare`` with the real engine, scripted teams and a referee that looks verdicts up."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kernelwright.api import playing
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.events import CandidateEvaluated, Event
from kernelwright.core.evidence import FactValue
from kernelwright.core.task import Task
from kernelwright.runs.loop import Crew
from kernelwright.runs.recording import read_recording
from kernelwright.store.sqlstore import open_store
from kernelwright.targets.gpu import peaks as gpu_peaks
from kernelwright.targets.gpu import torch_devices as gpu_present
from kernelwright.targets.gpu.facts import GPUS
from kernelwright.targets.gpu.inspect.ahead import AotCheck
from kernelwright.targets.gpu.profilers.profile import Profiled
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_prepare

RECIPES = "kernelskill,kernelskill-no-long-term"
VERDICTS: dict[str, float | Status] = {"a": 1.5, "a>x": Status.CRASHED, "a>x+fix": 2.0, "a>y": 3.0}
PER_RUN = 6
"""Evaluations of a run with these verdicts, the final one included."""


@dataclass
class Arena:
    """Stands in for the machine: who was asked what, and where to stop."""

    referee: FakeReferee = field(default_factory=lambda: FakeReferee(VERDICTS))
    played: list[tuple[str, str, int]] = field(default_factory=list)
    interrupt_at: int | None = None
    """Number of the evaluation after which somebody presses Ctrl-C."""
    error: Exception | None = None
    n_evaluated: int = 0
    opened: list[dict[str, object]] = field(default_factory=list)
    """How the referee was asked for."""

    def open(self, **how: object) -> FakeReferee:
        """Give the referee out."""
        self.opened.append(how)
        return self.referee

    def prepare(self, spec: Any, cache_dir: Path) -> Any:
        """Note who plays, then give a problem without graphs."""
        self.played.append((spec.task.name, spec.recipe, spec.seed))
        if self.error is not None:
            raise self.error
        return fake_prepare(spec, cache_dir)

    def listen(self, event: Event) -> None:
        """Count evaluations."""
        if isinstance(event, CandidateEvaluated):
            self.n_evaluated += 1
            if self.n_evaluated == self.interrupt_at:
                raise KeyboardInterrupt


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Put scripted teams and the arena's referee where the machine would be."""
    arena, real = Arena(), playing._tools

    def tools(spec: Any, store: Any, where: Any, referee: Any, on_event: Callable[[Event], None]) -> Any:
        def listen(event: Event) -> None:
            on_event(event)
            arena.listen(event)

        made = real(spec, store, where, referee, listen)
        return replace(made, assemble=lambda meter, tape: Crew(ScriptedTeam(["a"], ["x", "y"]).team()))

    monkeypatch.setattr(playing, "_tools", tools)
    monkeypatch.setattr(playing, "open_referee", lambda settings, **how: arena.open(**how))
    monkeypatch.setattr("kernelwright.api.comparing.preparation", lambda where: arena.prepare)
    monkeypatch.setattr(
        "kernelwright.runs.recording.prepare_on", lambda spec, *a: arena.prepare(spec, Path())
    )
    return arena


@pytest.fixture
def folder(task_file: Path) -> Path:
    """Two tasks."""
    tasks = task_file.parent / "pointwise"
    tasks.mkdir()
    for name in ("1_First.py", "2_Second.py"):
        text = task_file.read_text(encoding="utf-8")
        (tasks / name).write_text(f"# {name}\n{text}", encoding="utf-8")
    return tasks


def read(name: str) -> Any:
    return json.loads(Path(name, "comparison.json").read_text(encoding="utf-8"))


def test_every_recipe_plays_every_task_and_seed_in_turn(cli: Any, arena: Arena, folder: Path) -> None:
    result = cli("compare", folder, "--recipes", RECIPES, "--seeds", "0,1", "--name", "c")
    assert result.code == 0, result.err
    one = [("1_First", recipe, seed) for seed in (0, 1) for recipe in RECIPES.split(",")]
    assert arena.played == [*one, *(("2_Second", recipe, seed) for _, recipe, seed in one)]
    assert "[8/8] 2_Second, kernelskill-no-long-term, seed 1: 2.00x" in result.err
    document = read("c")
    first = document["comparison"]["standings"][0]
    assert first["geomean"]["value"] == pytest.approx(2.0)
    assert (document["comparison"]["n_cells"], first["n_runs"], first["n_tasks"]) == (4, 4, 2)
    assert document["conditions"]["budget"]["evaluations"] == 16
    assert "began with an empty memory" in Path("c/comparison.md").read_text(encoding="utf-8")
    assert "2.00x [2.00, 2.00]" in result.out
    assert Path("c/comparison.svg").read_text(encoding="utf-8").startswith("<svg")


def test_one_budget_holds_for_every_recipe(cli: Any, arena: Arena, folder: Path) -> None:
    cli("compare", folder, "--recipes", RECIPES, "--budget-evaluations", "1", "--name", "c")
    standings = read("c")["comparison"]["standings"]
    assert [s["evaluations"] for s in standings] == [1.0, 1.0]
    assert [s["curve"] for s in standings] == [pytest.approx([1.0, 1.5])] * 2


def test_resume_carries_on_what_was_interrupted_and_repeats_nothing(
    cli: Any, arena: Arena, folder: Path
) -> None:
    arguments = ["compare", folder, "--recipes", RECIPES]
    arena.interrupt_at = PER_RUN + 1
    stopped = cli(*arguments, "--name", "c")
    assert stopped.code == 130 and "--resume c" in stopped.err
    assert arena.played == [("1_First", recipe, 0) for recipe in RECIPES.split(",")]
    arena.played.clear()
    assert cli(*arguments, "--resume", "c").code == 0
    assert arena.played[0] == ("1_First", "kernelskill-no-long-term", 0)
    assert len(arena.played) == 3
    assert len(arena.referee.asked) == 4 * PER_RUN
    arena.played.clear()
    assert cli(*arguments, "--resume", "c", "--json").json["comparison"]["n_cells"] == 2
    assert arena.played == []


def test_whole_tasks_are_taken_over_from_another_store(
    cli: Any, arena: Arena, folder: Path, tmp_path: Path
) -> None:
    arguments = ["compare", folder, "--recipes", RECIPES]
    arena.interrupt_at = 3 * PER_RUN + 1
    cli(*arguments, "--name", "one", "--store", tmp_path / "one.db")
    assert [run["task"] for run in read("one")["runs"]] == ["1_First"] * 2
    arena.interrupt_at = None
    arena.played.clear()
    there = ("--store", tmp_path / "two.db", "--earlier", "one/comparison.json")
    assert cli(*arguments, "--name", "two", *there).code == 0
    assert arena.played == [("2_Second", recipe, 0) for recipe in RECIPES.split(",")]
    assert read("two")["comparison"]["n_cells"] == 2 and len(read("two")["devices"]) == 1
    other = cli(*arguments, "--name", "three", "--budget-evaluations", "1", *there)
    assert other.code == 2 and "budget was" in other.err


def test_tables_are_there_after_every_task(cli: Any, arena: Arena, folder: Path) -> None:
    arena.interrupt_at = 2 * PER_RUN + 1
    assert cli("compare", folder, "--recipes", RECIPES, "--name", "c").code == 130
    assert read("c")["comparison"]["n_cells"] == 1


def test_runs_begin_cold_unless_warm_is_asked_for(cli: Any, arena: Arena, folder: Path) -> None:
    cli("compare", folder, "--name", "c", "--limit", "1")
    store = open_store("runs.db")
    known = store.last_outcome_id()
    assert known > 0
    cli("compare", folder, "--name", "w", "--memory", "warm")
    assert [r.spec.ledger_until for r in store.iter_runs("c")] == [0]
    assert [r.spec.ledger_until for r in store.iter_runs("w")] == [known, known]


def test_measurements_are_made_once_when_reused(cli: Any, arena: Arena, folder: Path) -> None:
    cli("compare", folder, "--recipes", RECIPES, "--name", "fresh", "--limit", "1")
    fresh = len(arena.referee.asked)
    arena.referee.asked.clear()
    cli("compare", folder, "--recipes", RECIPES, "--name", "reused", "--limit", "1", "--reuse-measurements")
    assert len(arena.referee.asked) == fresh / 2 == PER_RUN
    standings = read("reused")["comparison"]["standings"]
    assert standings[0]["seconds"] is None
    assert standings[0]["evaluations"] == standings[1]["evaluations"] > 0


def test_a_replay_gives_the_same_table_with_no_machine(cli: Any, arena: Arena, folder: Path) -> None:
    arguments = ["compare", folder, "--recipes", RECIPES, "--limit", "1"]
    cli(*arguments, "--name", "one", "--record", "kept/recording.jsonl")
    arena.referee.asked.clear()
    for name, where in (("two", "kept"), ("three", "kept/recording.jsonl"), ("four", "runs.db")):
        assert cli(*arguments, "--name", name, "--replay", where).code == 0
    assert arena.referee.asked == []
    tables = [read(name)["comparison"] for name in ("two", "three", "four")]
    assert tables[0] == tables[1] == tables[2]
    recorded = read("one")["comparison"]
    assert tables[0]["pairs"] == recorded["pairs"] and tables[0]["tasks"] == recorded["tasks"]


def test_a_missing_measurement_ends_a_replay_with_one_line(cli: Any, arena: Arena, folder: Path) -> None:
    cli("compare", folder, "--budget-evaluations", "1", "--name", "one", "--record", "r.jsonl")
    result = cli("compare", folder, "--name", "two", "--replay", "r.jsonl")
    assert result.code == 2
    assert "error: the recording has no measurement of candidate" in result.err
    assert len(arena.played) == 3


def test_a_failing_run_is_a_row_and_exit_code_1(cli: Any, arena: Arena, folder: Path) -> None:
    arena.error = MachineError("needs 93 GiB; scale batch_size down")
    result = cli("compare", folder, "--name", "c", "--json")
    assert result.code == 1
    assert result.json["comparison"]["standings"][0]["success"] == 0.0
    assert "93 GiB" in result.json["comparison"]["failures"][0]["detail"]
    arena.error = None
    assert cli("compare", folder, "--resume", "c").code == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--recipes", "kernelskill,magic"], "unknown recipe 'magic'"),
        (["--recipes", ","], "--recipes"),
        (["--team", "nobody"], "nobody"),
        (["--seeds", "0,x"], "--seeds"),
        (["--reuse-measurements", "--budget-seconds", "9"], "--budget-evaluations"),
        (["--replay", "a", "--record", "b"], "nothing to --record"),
        (["--replay", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--resume", "nothing"], "no experiment 'nothing'"),
        (["--group", "main"], "--tasks"),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    cli: Any, arena: Arena, folder: Path, words: list[str], expected: str
) -> None:
    result = cli("compare", folder, *words)
    assert (result.code, arena.played) == (2, [])
    assert expected in result.err and len(result.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--budget-evaluations", "3"], "another budget"),
        (["--memory", "warm"], "has memory cold"),
        (["--reuse-measurements"], "has measurements fresh"),
    ],
)
def test_conditions_are_not_changed_on_the_way(
    cli: Any, arena: Arena, folder: Path, words: list[str], expected: str
) -> None:
    cli("compare", folder, "--name", "c", "--limit", "1", "--budget-evaluations", "2")
    assert "there is an experiment 'c' already" in cli("compare", folder, "--name", "c").err
    result = cli("compare", folder, "--resume", "c", "--budget-evaluations", "2", *words)
    assert result.code == 2 and expected in result.err


@pytest.fixture
def stub_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that an H200 is here; nothing is compiled for it and nothing runs on it."""
    for module in (gpu_peaks, gpu_present):
        monkeypatch.setattr(module, "has_gpu", lambda kind: kind == "cuda")
    monkeypatch.setattr(gpu_peaks, "gpu_here", lambda kind, cache: GPUS["h200-sxm"])
    monkeypatch.setattr(playing, "inspector", lambda spec, settings: stub_inspect)
    monkeypatch.setattr(playing, "profiler", lambda spec, settings: lambda task, candidate: PROFILED)


PROFILED = Profiled(facts={"gpu.dram_fraction": 0.5}, note="a stub's profile")


def stub_inspect(task: Task, candidate: Candidate) -> AotCheck:
    """Stand in for the compilers: they refuse one candidate."""
    facts: dict[str, FactValue] = {"aot.registers": len(candidate.source)}
    return AotCheck(
        facts=facts, problem="too large" if candidate.source == "a>x" else "", note="a stub's build"
    )


def verdicts(experiment: str) -> list[Evaluation]:
    store = open_store("runs.db")
    (run,) = store.iter_runs(experiment)
    events = [stored.event for stored in store.iter_events(run.run_id)]
    return [event.evaluation for event in events if isinstance(event, CandidateEvaluated)]


def test_a_gpu_is_compared_on_where_it_is_and_named_in_every_run(
    cli: Any, arena: Arena, folder: Path, stub_gpu: None
) -> None:
    result = cli(
        "compare", folder, "--name", "c", "--limit", "1", "--target", "cuda/triton", "--record", "r.jsonl"
    )
    assert result.code == 0, result.err
    assert arena.opened == [{"device": "cuda", "is_search": True}]
    (run,) = open_store("runs.db").iter_runs("c")
    assert str(run.spec.target) == "cuda/triton" and run.spec.environment["gpu"] == "h200-sxm"
    assert "machine.bandwidth_gbps" not in run.spec.environment
    assert read("c")["environment"]["gpu_peaks"] == "published"
    recorded = read_recording(Path("r.jsonl")).machine
    assert recorded is not None and recorded.gpu == GPUS["h200-sxm"]


def test_without_its_gpu_a_target_is_only_replayed(
    cli: Any, arena: Arena, folder: Path, stub_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["compare", folder, "--limit", "1", "--target", "cuda/triton"]
    assert cli(*arguments, "--name", "c", "--record", "r.jsonl").code == 0
    for module in (gpu_peaks, gpu_present):
        monkeypatch.setattr(module, "has_gpu", lambda kind: False)
    refused = cli(*arguments, "--name", "d")
    assert refused.code == 2 and "needs a GPU" in refused.err
    assert cli(*arguments, "--name", "e", "--replay", "r.jsonl").code == 0
    assert read("e")["environment"]["gpu"] == "h200-sxm"
    assert len(arena.opened) == 1
    assert verdicts("e") == verdicts("c")
    (refused,) = [verdict for verdict in verdicts("e") if verdict.status is Status.COMPILE_ERROR]
    assert refused.detail == "too large" and refused.facts == {"aot.registers": 3}
    assert "a>x" not in {source for source, _ in arena.referee.asked}
    assert {"aot.registers": 1, "gpu.dram_fraction": 0.5} in [verdict.facts for verdict in verdicts("e")]
