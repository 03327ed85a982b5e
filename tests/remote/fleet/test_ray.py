"""A real Ray cluster with several nodes on this machine; only the referees are stubs."""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lab.fleet import PATIENCE, WAITS_HERE, FleetScript, notes_in, order_for
from tests.fleets import PATHS, ROOT, STORE_BYTES, add_node, ended, held, wait_until
from torch import nn

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

from kernelwright.machine.ray_environment import set_for_ray  # noqa: E402

set_for_ray()

from ray.cluster_utils import Cluster  # noqa: E402
from ray.exceptions import OutOfMemoryError  # noqa: E402

from kernelwright.core.candidate import Candidate  # noqa: E402
from kernelwright.core.errors import MachineError, UserError  # noqa: E402
from kernelwright.core.evaluation import Evaluation  # noqa: E402
from kernelwright.core.task import Task  # noqa: E402
from kernelwright.remote.fleet.cluster import WorkerLost  # noqa: E402
from kernelwright.remote.fleet.fleet import Fleet  # noqa: E402
from kernelwright.remote.fleet.lanes import FleetJob, Lanes  # noqa: E402
from kernelwright.remote.fleet.ray_cluster import RayAnswer, RayCluster, _init  # noqa: E402
from kernelwright.remote.fleet.session import FleetEvaluator, FleetPlace  # noqa: E402
from kernelwright.targets.base import BuildSite  # noqa: E402
from kernelwright.targets.cpp.build import build_cpp  # noqa: E402
from kernelwright.tasks.live import task_from_module  # noqa: E402

SOURCES = ("a", "b", "c")


@contextmanager
def fleet_on(cluster: Cluster, script: FleetScript, *, is_apart: bool = True) -> Iterator[Fleet]:
    connected = RayCluster(cluster.address, "cpu", is_apart=is_apart)
    with Fleet(connected, order_for(script), "the Ray cluster", PATIENCE) as fleet:
        yield fleet


def play_all(fleet: Fleet, n_tasks: int) -> dict[str, Any]:
    """Judge every source on every task, a final one at the end; return what was recorded."""
    record: dict[str, list[Evaluation]] = {}

    def job(name: str) -> FleetJob:
        def play(evaluator: FleetEvaluator) -> None:
            with evaluator.open(Task(name=name, source=name)) as session:
                for source in SOURCES:
                    record.setdefault(name, []).append(session.evaluate(Candidate(source=source)))
                record[name].append(session.evaluate(Candidate(source="a"), final=True))

        return FleetJob(name, play)

    Lanes(fleet).run([job(f"task {number}") for number in range(n_tasks)])
    return {name: [_plain(one) for one in found] for name, found in sorted(record.items())}


def _plain(evaluation: Evaluation) -> Any:
    return json.loads(evaluation.model_copy(update={"device": None}).model_dump_json())


def look(fleet: Fleet) -> int:
    """Return how many devices are idle now."""
    fleet.look()
    return sum(seat.is_idle for seat in fleet._seats.values())


def test_one_device_and_four_on_two_nodes_give_the_same_record(nodes: Cluster, tmp_path: Path) -> None:
    verdicts = {"a": 1.5, "b": 2.0}
    add_node(nodes)
    one = tmp_path / "one"
    four = tmp_path / "four"
    for folder in (one, four):
        folder.mkdir()
    with fleet_on(nodes, FleetScript(verdicts=verdicts, notes=str(one))) as fleet:
        first = play_all(fleet, 5)
    add_node(nodes, 3)
    with fleet_on(nodes, FleetScript(verdicts=verdicts, notes=str(four), seconds=0.2)) as fleet:
        wait_until(lambda: look(fleet) == 4)
        assert play_all(fleet, 5) == first
    assert ended(one) == ended(four)
    assert len({note["pid"] for note in notes_in(one)}) == 1
    assert len({note["pid"] for note in notes_in(four)}) > 1


def test_a_processor_is_one_device_with_all_cores_of_its_node(nodes: Cluster, tmp_path: Path) -> None:
    add_node(nodes, 0, n_cores=2)
    add_node(nodes, 0, n_cores=3)
    script = FleetScript(notes=str(tmp_path), seconds=0.2)
    with fleet_on(nodes, script, is_apart=False) as fleet:
        wait_until(lambda: look(fleet) == 2)  # the head has no cores, and so no device
        assert sorted(seat.device.cpus for seat in fleet._seats.values()) == [2, 3]
        record = play_all(fleet, 4)
    assert [len(found) for found in record.values()] == [len(SOURCES) + 1] * 4
    assert len({note["pid"] for note in notes_in(tmp_path)}) == 2


def test_a_worker_that_is_killed_loses_nothing_and_records_nothing_twice(
    nodes: Cluster, tmp_path: Path
) -> None:
    add_node(nodes)
    with fleet_on(nodes, FleetScript(notes=str(tmp_path), dies_once=("b",))) as fleet:
        record = play_all(fleet, 1)
    assert [len(found) for found in record.values()] == [len(SOURCES) + 1]
    assert len(ended(tmp_path)) == len(set(ended(tmp_path))) == len(SOURCES) + 1
    assert len({note["pid"] for note in notes_in(tmp_path)}) == 2


@contextmanager
def play_beside(fleet: Fleet, n_tasks: int) -> Iterator[dict[str, Any]]:
    """Play in another thread: Ray starts nodes in the main one alone. The record is whole after the block."""
    record: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: record.update(play_all(fleet, n_tasks)))
    thread.start()
    try:
        yield record
    except BaseException:
        fleet.stop()
        raise
    finally:
        thread.join()


def test_killed_raylets_lose_nothing(nodes: Cluster, tmp_path: Path) -> None:
    """One of two nodes is killed while it judges; the other one goes on with its run."""
    hold, notes = held(tmp_path)
    doomed = add_node(nodes)
    add_node(nodes)
    with fleet_on(nodes, FleetScript(notes=str(notes), waits=str(hold))) as fleet:
        wait_until(lambda: look(fleet) == 2)
        with play_beside(fleet, 3) as record:
            wait_until(lambda: len(notes_in(notes)) >= 2)  # both nodes are at work
            nodes.remove_node(doomed, allow_graceful=False)
            hold.unlink()
    assert {name: len(found) for name, found in record.items()} == {
        f"task {number}": len(SOURCES) + 1 for number in range(3)
    }
    assert len(set(ended(notes))) == 3 * (len(SOURCES) + 1)


def test_a_slow_node_holds_up_nothing_but_its_own_task(nodes: Cluster, tmp_path: Path) -> None:
    """One of two nodes does not end its first evaluation until the other one has done all other tasks."""
    hold, notes = held(tmp_path)
    add_node(nodes, **{WAITS_HERE: str(hold)})
    add_node(nodes)
    with fleet_on(nodes, FleetScript(notes=str(notes))) as fleet:
        wait_until(lambda: look(fleet) == 2)
        with play_beside(fleet, 4) as record:
            try:
                wait_until(lambda: len(ended(notes)) == 3 * (len(SOURCES) + 1))
            finally:
                hold.unlink()
    assert [len(found) for found in record.values()] == [len(SOURCES) + 1] * 4
    assert len(ended(notes)) == len(set(ended(notes))) == 4 * (len(SOURCES) + 1)
    pids = {
        note["pid"]: {n["task"] for n in notes_in(notes) if n["pid"] == note["pid"]}
        for note in notes_in(notes)
    }
    assert sorted(len(tasks) for tasks in pids.values()) == [1, 3]


def test_a_run_waits_for_a_node_that_comes_back(nodes: Cluster, tmp_path: Path) -> None:
    """The only node is killed while it judges; its successor carries the run on."""
    hold, notes = held(tmp_path)
    first = add_node(nodes)
    with (
        fleet_on(nodes, FleetScript(notes=str(notes), waits=str(hold))) as fleet,
        play_beside(fleet, 1) as record,
    ):
        wait_until(lambda: len(notes_in(notes)) >= 1)
        nodes.remove_node(first, allow_graceful=False)
        add_node(nodes)
        hold.unlink()
    assert [len(found) for found in record.values()] == [len(SOURCES) + 1]
    assert len(ended(notes)) == len(SOURCES) + 1


def test_another_version_on_a_worker_is_refused_in_one_line(nodes: Cluster, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import kernelwright.core.version as version\nversion.__version__ = '0.0.7'\n", encoding="utf-8"
    )
    add_node(nodes, 1, PYTHONPATH=str(tmp_path))
    with (
        fleet_on(nodes, FleetScript()) as fleet,
        pytest.raises(UserError, match=r"runs Kernelwright 0\.0\.7, .*install the same on every node"),
    ):
        fleet.wait_for(lambda machine: True)


def test_a_driver_that_dies_leaves_its_devices_free(nodes: Cluster, tmp_path: Path) -> None:
    """The workers of a driver end with it, so the next one has the devices at once."""
    add_node(nodes)
    program = (
        "import sys, time\n"
        "from lab.fleet import FleetScript, order_for\n"
        "from kernelwright.remote.fleet.fleet import Fleet\n"
        "from kernelwright.remote.fleet.ray_cluster import RayCluster\n"
        "fleet = Fleet(RayCluster(sys.argv[1], 'cpu', is_apart=True), order_for(FleetScript()))\n"
        "fleet.wait_for(lambda machine: True)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", program, nodes.address],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert driver.stdout is not None
    try:
        assert driver.stdout.readline().strip() == b"ready"
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
    with fleet_on(nodes, FleetScript(notes=str(tmp_path))) as fleet:
        assert len(play_all(fleet, 1)) == 1


def test_a_worker_that_was_killed_for_its_memory_is_lost_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(reference: object) -> None:
        raise OutOfMemoryError("the node ran out of memory")

    monkeypatch.setattr("ray.get", killed)
    with pytest.raises(WorkerLost, match="ran out of memory"):
        RayAnswer(None).get()


def test_nobody_at_the_address_is_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"ray://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(MachineError, match=r"no Ray cluster at ray://127\.0\.0\.1:\d+: .*ray start"):
            RayCluster(address, "cpu", is_apart=False)


def test_a_cluster_is_reached_through_its_client_server(tmp_path: Path) -> None:
    """As ``--workers ray://HOST:PORT`` does it: this process is no part of the cluster."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "num_gpus": 1,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            "ray_client_server_port": port,
            "env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), *PATHS)))},
        },
    )
    try:
        wait_until(lambda: listens(port))
        connected = RayCluster(f"ray://127.0.0.1:{port}", "cpu", is_apart=True)
        with Fleet(connected, order_for(FleetScript(notes=str(tmp_path), dies_once=("b",)))) as fleet:
            fleet.patience = PATIENCE
            assert len(play_all(fleet, 1)) == 1
    finally:
        cluster.shutdown()
    assert len(set(ended(tmp_path))) == len(ended(tmp_path)) == len(SOURCES) + 1


def test_a_client_server_that_aborts_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([ConnectionAbortedError("Initialization failure from server"), None])
    asked: list[str] = []

    def stub(address: str, **_: Any) -> None:
        asked.append(address)
        if (failure := next(answers)) is not None:
            raise failure

    monkeypatch.setattr("ray.init", stub)
    _init("ray://there:10001", {})
    assert asked == ["ray://there:10001"] * 2


def test_a_client_server_that_keeps_aborting_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def stub(address: str, **_: Any) -> None:
        raise ConnectionAbortedError("Initialization failure from server")

    monkeypatch.setattr("ray.init", stub)
    with pytest.raises(ConnectionAbortedError, match="from server"):
        _init("ray://there:10001", {})


def listens(port: int) -> bool:
    """Tell whether somebody listens there."""
    with socket.socket() as there:
        return there.connect_ex(("127.0.0.1", port)) == 0


def test_a_live_module_goes_to_every_worker_that_is_asked(nodes: Cluster, tmp_path: Path) -> None:
    there, notes = tmp_path / "there", tmp_path / "notes"
    notes.mkdir()
    task = task_from_module(nn.Linear(4, 3), (torch.ones(2, 4),), name="live", folder=tmp_path / "here")
    add_node(nodes)
    script = FleetScript(modules=str(there), notes=str(notes), dies_once=("b",))
    with fleet_on(nodes, script) as fleet:
        seat = fleet.wait_for(lambda machine: True)
        assert seat.machine is not None
        session = FleetEvaluator(FleetPlace(fleet, seat, seat.machine)).open(task)
        assert [path.name for path in there.iterdir()] == [Path(str(task.artifact)).name]
        shutil.rmtree(there)  # as if the next worker were on another node
        assert session.evaluate(Candidate(source="b")).task_id == task.id
        assert [path.name for path in there.iterdir()] == [Path(str(task.artifact)).name]
    assert len({note["pid"] for note in notes_in(notes)}) == 2


def test_workers_that_are_killed_at_once_keep_their_cards(nodes: Cluster, tmp_path: Path) -> None:
    """A device is named by the card that Ray gave to its worker, and stays that card for its run."""
    hold, notes = held(tmp_path)
    add_node(nodes, 2)
    judged: dict[str, list[str | None]] = {}

    def play(evaluator: FleetEvaluator) -> None:
        session = evaluator.open(task := Task(name=threading.current_thread().name, source="t"))
        judged[task.name] = [session.evaluate(Candidate(source=source)).device for source in "ab"]

    with fleet_on(nodes, FleetScript(notes=str(notes), waits=str(hold))) as fleet:
        wait_until(lambda: look(fleet) == 2)
        thread = threading.Thread(target=lambda: Lanes(fleet).run([FleetJob(name, play) for name in "pq"]))
        thread.start()
        wait_until(lambda: len(notes_in(notes)) == 2)
        for note in notes_in(notes):
            os.kill(int(str(note["pid"])), signal.SIGKILL)
        hold.unlink()
        thread.join()
    done = [note for note in notes_in(notes) if note["what"] == "ended"]
    cards = {name: {str(note["card"]) for note in done if note["task"] == name} for name in judged}
    assert sorted(map(sorted, cards.values())) == [["0"], ["1"]]
    for name, (card,) in cards.items():
        assert [str(device).partition("/")[2] for device in judged[name]] == [f"cpu:{card}"] * 2


CPP = """
CXX_FLAGS = ["-O1"]
CPP_SOURCE = 'extern "C" int answer() { return 42; }'
"""


def test_what_a_build_node_compiles_is_in_the_cache_of_the_node_that_times(
    nodes: Cluster, tmp_path: Path
) -> None:
    """Nothing is timed on a build node; where none is left, the node that times compiles by itself."""
    builds, notes = tmp_path / "builds", tmp_path / "notes"
    notes.mkdir()
    builder = add_node(nodes, 0, n_cores=1, n_builds=2)
    add_node(nodes)
    script = FleetScript(builds=str(builds), notes=str(notes))
    with fleet_on(nodes, script, is_apart=False) as processors:
        assert look(processors) == 0 and not processors._seats  # the build node's own processor is no device
    with fleet_on(nodes, script) as fleet:
        seat = fleet.wait_for(lambda machine: True)
        assert seat.machine is not None
        session = FleetEvaluator(FleetPlace(fleet, seat, seat.machine)).open(Task(name="t", source="t"))
        session.evaluate(Candidate(source=CPP))
        came = {path.suffix for path in builds.iterdir()}
        found = build_cpp(Candidate(source=CPP).program, BuildSite(builds, 60.0, run=never))
        nodes.remove_node(builder, allow_graceful=False)
        session.evaluate(Candidate(source=CPP.replace("42", "43")))
    assert came == {".cpp", ".log", ".so"} and found is not None and found.library is not None
    assert ctypes.CDLL(str(found.library)).answer() == 42
    assert len(ended(notes)) == 2 and len(list(builds.glob("*.so"))) == 1


def never(command: object, work: Path, limit_s: float) -> Any:
    raise AssertionError("it was built already")


def test_a_question_that_arrives_twice_is_judged_once(nodes: Cluster, tmp_path: Path) -> None:
    """A driver whose answer was lost asks again, while the first question is still at work."""
    add_node(nodes)
    with fleet_on(nodes, FleetScript(notes=str(tmp_path), seconds=0.2)) as fleet:
        seat = fleet.wait_for(lambda machine: True)
        assert seat.handle is not None and seat.machine is not None
        asked = seat.handle.ask
        lost: list[Any] = []

        def ask_twice(method: str, *values: object) -> Any:
            if method == "evaluate":
                lost.append(asked(method, *values))
            return asked(method, *values)

        seat.handle.ask = ask_twice  # type: ignore[method-assign]
        session = FleetEvaluator(FleetPlace(fleet, seat, seat.machine)).open(Task(name="t", source="t"))
        found = [session.evaluate(Candidate(source=source)) for source in SOURCES]
        first = [json.loads(answer.get())["evaluation"] for answer in lost]
    assert [one["candidate_id"] for one in first] == [one.candidate_id for one in found]
    assert [one[1] for one in ended(tmp_path)] == list(SOURCES)
