"""``--workers`` with the real engine and scripted teams; the cluster is one of this process."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lab.fleet import FakeAnswer, FakeCluster, FakeWorker, FleetScript, fake_fleet
from tests.fleets import devices, records

from kernelwright.api import playing
from kernelwright.core.errors import UserError
from kernelwright.core.events import CandidateEvaluated
from kernelwright.core.places import AtPath
from kernelwright.core.request import CompareRequest, RunRequest
from kernelwright.core.workers import parse_workers
from kernelwright.remote.fleet.fleet import Fleet
from kernelwright.runs.loop import Crew
from kernelwright.runs.recording import read_recording
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import ScriptedTeam, fake_prepare

SCRIPT = FleetScript(verdicts={"a": 1.5, "a>x": 2.0, "a>y": 3.0})
RECIPES = "kernelskill,kernelskill-no-long-term"
TASKS = 8


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put scripted teams and problems without graphs where the machine would be."""
    real = playing._tools

    def tools(*given: Any) -> Any:
        made = real(*given)
        return replace(made, assemble=lambda meter, tape: Crew(ScriptedTeam(["a"], ["x", "y"]).team()))

    monkeypatch.setattr(playing, "_tools", tools)
    monkeypatch.setattr(playing, "carry_on", partial(_carry_on, playing.carry_on))
    monkeypatch.setattr(playing, "open_referee", _no_referee)


def _carry_on(real: Callable[..., Any], run_id: str, **how: Any) -> Any:
    return real(run_id, **{**how, "prepare": fake_prepare})


def _no_referee(*given: object, **how: object) -> Any:
    raise AssertionError("no referee of this process may judge")


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeCluster], FakeCluster]:
    """Make a cluster the one that every command finds."""

    def put(cluster: FakeCluster) -> FakeCluster:
        def open_fleet(*given: object, **how: object) -> Fleet:
            return fake_fleet(cluster, SCRIPT)

        for module in ("benching", "comparing", "workers"):
            monkeypatch.setattr(f"kernelwright.api.{module}.open_fleet", open_fleet)
        return cluster

    return put


@pytest.fixture
def folder(task_file: Path) -> Path:
    """Tasks that differ."""
    tasks = task_file.parent / "pointwise"
    tasks.mkdir()
    text = task_file.read_text(encoding="utf-8")
    for number in range(1, TASKS + 1):
        (tasks / f"{number}_Task.py").write_text(f"# {number}\n{text}", encoding="utf-8")
    return tasks


NODES = [f"n{number}" for number in range(8)]


@pytest.mark.slow
def test_a_comparison_is_the_same_with_one_worker_and_with_eight(
    cli: Any, scripted: None, on: Any, folder: Path, tmp_path: Path
) -> None:
    words = ("compare", folder, "--recipes", RECIPES, "--workers", "ray", "--name")
    for title, nodes in (("one", NODES[:1]), ("eight", NODES)):
        cluster = on(FakeCluster(list(nodes)))
        result = cli(*words, title)
        assert result.code == 0, result.err
        assert cluster.is_closed
    one, eight = records(tmp_path / "runs.db", "one"), records(tmp_path / "runs.db", "eight")
    assert one == eight and len(one) == TASKS * 2
    used = devices(tmp_path / "runs.db", "eight")
    assert {len(judged) for judged in used.values()} == {1}  # every recipe of a task on one device
    assert len(set().union(*used.values())) == len(NODES)


@pytest.mark.slow
def test_a_bench_is_the_same_with_one_worker_and_with_eight(
    cli: Any, scripted: None, on: Any, folder: Path, tmp_path: Path
) -> None:
    """What one run learns is no other's: it would depend on who ends first."""
    stated = []
    for title, nodes in (("one", NODES[:1]), ("eight", NODES)):
        on(FakeCluster(list(nodes)))
        words = ("--recipe", "kernelskill", "--workers", "ray", "--store", f"{title}.db")
        result = cli("bench", folder, *words, "--name", title)
        assert result.code == 0, result.err
        stated.append(json.loads(Path(title, "results.json").read_text(encoding="utf-8")))
    one, eight = records(tmp_path / "one.db"), records(tmp_path / "eight.db")
    assert one == eight and len(one) == TASKS
    assert [[row["task"] for row in document["rows"]] for document in stated] == [
        [f"{number}_Task" for number in range(1, TASKS + 1)]
    ] * 2


@pytest.mark.slow
def test_losses_change_no_record(cli: Any, scripted: None, on: Any, folder: Path, tmp_path: Path) -> None:
    words = ("compare", folder, "--recipes", RECIPES, "--workers", "ray", "--name")
    on(FakeCluster(["n0"]))
    assert cli(*words, "calm").code == 0
    fates = ["", "worker", "", "", "node"]
    cluster = on(FakeCluster(list(NODES), dies={"evaluate": fates}))
    result = cli(*words, "stormy")
    assert result.code == 0, result.err
    assert records(tmp_path / "runs.db", "stormy") == records(tmp_path / "runs.db", "calm")
    assert len(cluster.nodes) == len(NODES) - 1 and not cluster.dies["evaluate"]


def test_optimize_has_one_device_for_the_whole_run(
    cli: Any, scripted: None, on: Any, task_file: Path, tmp_path: Path
) -> None:
    cluster = on(FakeCluster(["n0", "n1"]))
    result = cli("optimize", task_file, "--recipe", "kernelskill", "--workers", "ray")
    assert result.code == 0, result.err
    assert cluster.is_closed
    (record,) = open_store(tmp_path / "runs.db").iter_runs()
    assert record.spec.machine.processor == "stub" and record.spec.machine.is_elsewhere
    (judged,) = devices(tmp_path / "runs.db").values()
    assert judged == {"host-n0/cpu"}


def test_an_interrupted_run_goes_on_on_a_machine_like_its_own(
    cli: Any, scripted: None, on: Any, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = FakeWorker.ask, list[str]()

    def ask(self: FakeWorker, method: str, *values: object) -> FakeAnswer:
        asked.append(method)
        if asked.count("evaluate") == 2:
            raise KeyboardInterrupt
        return real(self, method, *values)

    stopped = on(FakeCluster(["n0"]))
    with monkeypatch.context() as patch:
        patch.setattr(FakeWorker, "ask", ask)
        result = cli("optimize", task_file, "--recipe", "kernelskill", "--workers", "ray")
    assert result.code == 130 and stopped.is_closed
    (record,) = open_store(tmp_path / "runs.db").iter_runs()
    cluster = on(FakeCluster(["n1", "n2"], processors={"n1": "faster"}))
    assert cli("runs", "resume", record.run_id).code == 0
    assert cluster.is_closed
    events = [stored.event for stored in open_store(tmp_path / "runs.db").iter_events(record.run_id)]
    judged = [e.evaluation for e in events if isinstance(e, CandidateEvaluated)]
    assert [one.device for one in judged[:2]] == ["host-n0/cpu", "host-n2/cpu"]
    keys = [(one.candidate_id, one.is_final) for one in judged]
    assert len(keys) == len(set(keys))


def test_the_same_again_is_the_store_s_and_leaves_the_cluster(
    cli: Any, scripted: None, on: Any, task_file: Path
) -> None:
    on(FakeCluster(["n0"]))
    assert cli("optimize", task_file, "--recipe", "kernelskill", "--workers", "ray").code == 0
    cluster = on(FakeCluster(["n0"]))
    again = cli("optimize", task_file, "--recipe", "kernelskill", "--workers", "ray")
    assert again.code == 0 and "the store has the answer" in again.err
    assert cluster.is_closed and ("n0", "evaluate") not in cluster.asked


@pytest.mark.slow
def test_a_comparison_goes_on_on_machines_like_those_it_was_begun_on(
    cli: Any, scripted: None, on: Any, folder: Path, tmp_path: Path
) -> None:
    words = ("compare", folder, "--limit", "2", "--workers", "ray")
    on(FakeCluster(["n0"]))
    assert cli(*words, "--recipes", "kernelskill", "--name", "c").code == 0
    on(FakeCluster(["n9"], processors={"n9": "faster"}))
    refused = cli(*words, "--recipes", RECIPES, "--resume", "c")
    assert refused.code != 0 and "figures of different machines are never compared" in refused.err
    cluster = on(FakeCluster(["n5", "n9"], processors={"n9": "faster"}))
    result = cli(*words, "--recipes", RECIPES, "--resume", "c")
    assert result.code == 0, result.err
    assert {node for node, method in cluster.asked if method == "evaluate"} == {"n5"}


@pytest.mark.slow
def test_figures_of_a_fleet_and_of_the_referee_here_are_never_mixed(
    cli: Any, scripted: None, on: Any, folder: Path
) -> None:
    on(FakeCluster(["n0"]))
    for command, option in (("compare", "--recipes"), ("bench", "--recipe")):
        words = (command, folder, "--limit", "1", option, "kernelskill")
        assert cli(*words, "--workers", "ray", "--name", command).code == 0
        refused = cli(*words, "--resume", command)
        assert refused.code == 2 and "resume it with --workers" in refused.err


@pytest.mark.slow
def test_a_recording_is_of_one_kind_of_machine(
    cli: Any, scripted: None, on: Any, folder: Path, tmp_path: Path
) -> None:
    cluster = on(FakeCluster(["n0", "n1", "n2"], processors={"n1": "faster"}))
    words = ("compare", folder, "--limit", "3", "--recipes", "kernelskill", "--workers", "ray")
    assert cli(*words, "--record", "rec.jsonl", "--name", "c").code == 0
    recording = read_recording(Path("rec.jsonl"))
    assert recording.machine is not None and recording.machine.machine.processor == "stub"
    assert {node for node, method in cluster.asked if method == "evaluate"} == {"n0", "n2"}


def test_a_task_that_is_refused_costs_no_other_one(cli: Any, scripted: None, on: Any, folder: Path) -> None:
    (folder / "1_Task.py").write_text(
        (folder / "2_Task.py").read_text(encoding="utf-8") + "# refuse me\n", encoding="utf-8"
    )
    on(FakeCluster(["n0", "n1"]))
    words = ("--limit", "2", "--recipe", "kernelskill", "--workers", "ray", "--name", "b")
    result = cli("bench", folder, *words)
    assert result.code == 1
    rows = json.loads(Path("b", "results.json").read_text(encoding="utf-8"))["rows"]
    assert [row["task"] for row in rows if row["ending"] == "failed"] == ["1_Task"]
    assert len(rows) == 2


@pytest.mark.parametrize(
    "text",
    ["", "Ray", "ray:", "ray://", "ray://host", "ray://host:x", "ray://a b:1", "http://host:1", "local"],
)
def test_what_names_no_cluster_is_refused(cli: Any, task_file: Path, text: str) -> None:
    with pytest.raises(UserError, match="use ray, for a cluster on this machine, or ray://HOST:PORT"):
        parse_workers(text)
    result = cli("optimize", task_file, "--workers", text)
    assert result.code == 2 and result.err.count("\n") == 1


@pytest.mark.parametrize("text", ["ray", "ray://node-1.example:10001", "ray://[::1]:10001"])
def test_what_names_a_cluster_is_taken(text: str) -> None:
    assert parse_workers(text) == text


def test_options_that_contradict_are_refused() -> None:
    with pytest.raises(UserError, match="--evaluator and --workers"):
        RunRequest(task=AtPath(path="task.py"), evaluator="drop:x", workers="ray")
    with pytest.raises(UserError, match="no work for --workers"):
        CompareRequest(replay="rec", workers="ray")


def test_without_ray_one_line_says_what_to_install(
    cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "kernelwright.remote.fleet.ray_cluster", raising=False)
    result = cli("bench", folder, "--workers", "ray", "--name", "b")
    assert result.code == 2
    assert "pip install 'kernelwright[ray]'" in result.err
