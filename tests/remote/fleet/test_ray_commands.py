"""Whole commands on a real Ray cluster. All but the last have stubs for referees and a scripted team."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from lab.fleet import PATIENCE, FleetScript, notes_in
from tests.docs.test_blocks import FLEET, OURS, TUTORIAL, blocks, paste, scripts
from tests.fleets import add_node, command, devices, ended, held, records, wait_until
from tests.whole.generous import times_by_size
from tests.whole.stacks import Net

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

import kernelwright  # noqa: E402
from kernelwright.api import workers  # noqa: E402
from kernelwright.core.budget import Budget  # noqa: E402
from kernelwright.core.events import CandidateEvaluated, Event  # noqa: E402
from kernelwright.referee.version import REFEREE_VERSION  # noqa: E402
from kernelwright.remote.fleet.fleet import Fleet  # noqa: E402
from kernelwright.remote.fleet.ray_cluster import RayCluster  # noqa: E402
from kernelwright.remote.fleet.records import WorkerOrder  # noqa: E402
from kernelwright.settings import Settings  # noqa: E402
from kernelwright.store.sqlstore import open_store  # noqa: E402
from kernelwright.whole import profiling  # noqa: E402

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.relu() + 0.5 * x

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""
VERDICTS = {"a": 1.5, "a>x": 2.0, "a>y": 3.0}
TASKS = 8
OF_BENCH = ("bench", "tasks", "--limit", "2", "--recipe", "kernelskill", "--workers", "ray", "--name", "b")
OF_COMPARE = (
    *("compare", "tasks", "--recipes", "kernelskill,kernelskill-no-long-term"),
    *("--workers", "ray", "--name", "c"),
)


def tasks_in(folder: Path) -> Path:
    """Write tasks that differ."""
    (folder / "tasks").mkdir()
    for number in range(1, TASKS + 1):
        (folder / "tasks" / f"{number}_Task.py").write_text(f"# {number}\n{TASK}", encoding="utf-8")
    return folder


def at_work(notes: Path) -> list[int]:
    """Return the processes that have begun an evaluation and not ended it."""
    pids = [int(str(note["pid"])) for note in notes_in(notes)]
    return [pid for pid in dict.fromkeys(pids) if pids.count(pid) % 2]


def test_a_bench_whose_worker_is_killed_has_the_record_of_one_that_nothing_befell(
    nodes: Any, tmp_path: Path
) -> None:
    tasks_in(tmp_path)
    hold, notes = held(tmp_path)
    add_node(nodes)
    with command(nodes, tmp_path, FleetScript(verdicts=VERDICTS), *OF_BENCH, "--store", "calm.db"):
        pass
    script = FleetScript(verdicts=VERDICTS, notes=str(notes), waits=str(hold))
    with command(nodes, tmp_path, script, *OF_BENCH, "--store", "killed.db"):
        wait_until(lambda: len(at_work(notes)) == 1)
        os.kill(at_work(notes)[0], signal.SIGKILL)
        hold.unlink()
    assert records(tmp_path / "killed.db") == records(tmp_path / "calm.db")
    assert "raylet" not in (tmp_path / "said").read_text(encoding="utf-8")  # what Ray says of the death
    assert len(devices(tmp_path / "killed.db")) == 2
    assert len(ended(notes)) == len(set(ended(notes)))
    assert len({note["pid"] for note in notes_in(notes)}) == 2


@pytest.fixture(scope="module")
def alone(head: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store ``alone.db`` and the recording of a comparison on one device."""
    folder = tasks_in(tmp_path_factory.mktemp("alone"))
    node = add_node(head)
    words = (*OF_COMPARE, "--record", "verdicts.jsonl", "--store", "alone.db")
    with command(head, folder, FleetScript(verdicts=VERDICTS), *words):
        pass
    head.remove_node(node, allow_graceful=False)
    assert len({name for judged in devices(folder / "alone.db").values() for name in judged}) == 1
    return folder


def test_a_comparison_has_the_same_record_on_one_device_and_on_eight(
    nodes: Any, alone: Path, tmp_path: Path
) -> None:
    """The eight answer from the recorded verdicts of the one."""
    hold, notes = held(tmp_path)
    add_node(nodes, 4)
    add_node(nodes, 4)
    script = FleetScript(recording=str(alone / "verdicts.jsonl"), notes=str(notes), waits=str(hold))
    with command(nodes, alone, script, *OF_COMPARE, "--store", "eight.db"):
        wait_until(lambda: len(at_work(notes)) == 8)
        hold.unlink()
    found = records(alone / "eight.db")
    assert found == records(alone / "alone.db") and len(found) == TASKS * 2
    used = devices(alone / "eight.db")
    assert {len(judged) for judged in used.values()} == {1}
    assert len(set().union(*used.values())) == 8


def test_a_comparison_whose_node_is_killed_has_the_record_of_one_that_nothing_befell(
    nodes: Any, alone: Path, tmp_path: Path
) -> None:
    """What had begun on it goes on on one that comes, and its record names both."""
    hold, notes = held(tmp_path)
    hold.unlink()
    doomed = add_node(nodes)
    script = FleetScript(verdicts=VERDICTS, notes=str(notes), waits=str(hold), seconds=0.05)
    with command(nodes, alone, script, *OF_COMPARE, "--store", "killed.db"):
        wait_until(lambda: len(ended(notes)) >= 1)
        hold.touch()
        wait_until(lambda: len(at_work(notes)) == 1)
        add_node(nodes)
        nodes.remove_node(doomed, allow_graceful=False)
        hold.unlink()
    assert records(alone / "killed.db") == records(alone / "alone.db")
    used = devices(alone / "killed.db")
    assert sorted(len(judged) for judged in used.values()) == [1] * (TASKS - 1) + [2]


def test_a_driver_that_is_killed_goes_on_and_repeats_nothing(nodes: Any, tmp_path: Path) -> None:
    """Every verdict stands once in the store of a driver that died during its third evaluation."""
    hold, notes = held(tmp_path)
    hold.unlink()
    add_node(nodes)
    (tmp_path / "relu.py").write_text(TASK, encoding="utf-8")
    script = FleetScript(verdicts=VERDICTS, notes=str(notes), waits=str(hold), seconds=0.2)
    words = ("optimize", "relu.py", "--recipe", "kernelskill", "--workers", "ray")
    with command(nodes, tmp_path, script, *words) as driver:
        wait_until(lambda: len(ended(notes)) >= 2)
        hold.touch()
        wait_until(lambda: len(at_work(notes)) == 1)
        before = ended(notes)
        driver.send_signal(signal.SIGKILL)
    hold.unlink()
    (run,) = open_store(tmp_path / "runs.db").iter_runs()
    with command(nodes, tmp_path, script, "runs", "resume", run.run_id):
        pass
    (judged,) = records(tmp_path / "runs.db").values()
    assert devices(tmp_path / "runs.db").keys() == {run.spec.task.name}
    assert sum(event["kind"] == "candidate_evaluated" for event in judged) > len(before)
    assert len(ended(notes)) == len(set(ended(notes)))


def evaluated(events: list[Event]) -> list[Any]:
    return [event.evaluation for event in events if isinstance(event, CandidateEvaluated)]


def test_a_whole_model_is_judged_on_one_device(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks and the whole: live modules travel to the worker, which a stand-in verifies all of."""
    add_node(nodes, 2)
    order = WorkerOrder(bring="tests.whole.generous:bring", device="cpu", argument=str(tmp_path / "there"))

    def open_fleet(*given: object) -> Fleet:
        return Fleet(RayCluster(nodes.address, "cpu", is_apart=True), order, "the Ray cluster", PATIENCE)

    monkeypatch.setattr(workers, "open_fleet", open_fleet)
    monkeypatch.setattr(profiling, "_time", times_by_size)
    x, net, events = torch.randn(8, 32), Net().eval(), list[Event]()
    settings = Settings(
        cache_dir=tmp_path / "cache", data_dir=tmp_path / "data", store=str(tmp_path / "runs.db")
    )
    result = kernelwright.optimize(
        net, (x,), workers="ray", budget=Budget(evaluations=4), settings=settings, progress=False,
        on_event=events.append,
    )  # fmt: skip
    assert sorted(devices(tmp_path / "runs.db")) == ["Gate", "Mlp", "Net"]
    assert len({one.device for one in evaluated(events)}) == 1
    assert len(list((tmp_path / "there").iterdir())) == 3
    with torch.no_grad():
        torch.testing.assert_close(result.module(x), net(x))
    assert kernelwright.report(result.module).kernel_calls == 4


def test_the_real_referee_judges_in_the_fleet_of_the_tutorial(tmp_path: Path) -> None:
    """Nothing but pip is a stub: a cluster of the command's own, whose one worker judges a kernel in C++."""
    task = blocks(TUTORIAL)[0].partition("kernelwright optimize")[0]
    fleet = [block for block in blocks(TUTORIAL) if FLEET in block]
    programs = scripts(tmp_path / "bin", OURS | {"pip": 'echo pip "$@"'})
    places = {"KERNELWRIGHT_DATA": str(tmp_path / "data"), "KERNELWRIGHT_STORE": str(tmp_path / "runs.db")}
    said = paste([task, *fleet], tmp_path, programs, places)
    assert "kernelwright[ray]" in said and (tmp_path / "tail_report.html").exists()
    store = open_store(tmp_path / "runs.db")
    (run,) = store.iter_runs()
    assert run.spec.machine.is_elsewhere and run.spec.machine.peaks is not None
    ((device,),) = devices(tmp_path / "runs.db").values()
    assert device is not None and device.endswith("/cpu")
    judged = evaluated([stored.event for stored in store.iter_events(run.run_id)])
    for one in judged:
        assert (one.referee, one.is_verified) == (REFEREE_VERSION, True), one.detail
        assert one.results[0].candidate.median_ms > 0
    made = [store.get_candidate(one.candidate_id, run.run_id) for one in judged]
    assert any("CPP_SOURCE" in candidate.source for candidate in made)
