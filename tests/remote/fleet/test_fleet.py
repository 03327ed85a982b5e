"""Devices, losses and versions, over a cluster of this process; ``test_ray.py`` has the real one."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from lab.fleet import FakeCluster, FleetScript, fake_fleet, notes_in, order_for
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.evaluation import Status
from kernelwright.core.machine import Machine
from kernelwright.core.task import Task
from kernelwright.remote.fleet import session as sessions
from kernelwright.remote.fleet.fleet import Fleet, FleetPatience
from kernelwright.remote.fleet.session import FleetEvaluator, FleetPlace
from kernelwright.tasks.live import task_from_module

TASK = Task(name="stub", source="never run by the stub")
KERNEL = Candidate(source="a")
NO_PATIENCE = FleetPatience(lost_s=0.0, busy_s=0.0, answer_s=0.0)


def anywhere(machine: Machine) -> bool:
    return True


def place_on(fleet: Fleet, fits: Callable[[Machine], bool] = anywhere) -> FleetPlace:
    seat = fleet.wait_for(fits)
    assert seat.machine is not None
    return FleetPlace(fleet, seat, seat.machine, nullcontext)


def script(tmp_path: Path) -> FleetScript:
    return FleetScript(verdicts={"a": 2.0}, notes=str(tmp_path))


def test_a_verdict_comes_from_one_device_and_names_it(tmp_path: Path) -> None:
    with fake_fleet(FakeCluster(["one"]), script(tmp_path)) as fleet:
        evaluator = FleetEvaluator(place_on(fleet))
        assert evaluator.machine().processor == "stub"
        with evaluator.open(TASK) as session:
            assert session.baseline_ms == {"default": 10.0}
            found = session.evaluate(KERNEL)
    assert (found.status, found.geomean_speedup()) == (Status.VERIFIED, 2.0)
    assert found.device == "host-one/cpu"


def test_a_device_is_one_run_s_until_it_is_given_back() -> None:
    fleet = fake_fleet(FakeCluster(["one"]), FleetScript(), NO_PATIENCE)
    place = place_on(fleet)
    with pytest.raises(MachineError, match="no free device for cpu"):
        fleet.wait_for(anywhere)
    place.give_back()
    assert fleet.wait_for(anywhere) is place.seat


def test_tasks_and_candidates_travel_once_as_values() -> None:
    cluster = FakeCluster(["one"])
    with fake_fleet(cluster, FleetScript()) as fleet:
        evaluator = FleetEvaluator(place_on(fleet))
        for _ in range(2):
            session = evaluator.open(TASK)
            for name in "abc":
                session.evaluate(Candidate(source=name))
            session.evaluate(Candidate(source="a"), final=True)
    assert len(cluster.sent) == len(set(cluster.sent)) == 4


def test_what_was_sent_long_ago_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.remote.fleet.fleet.MAX_SENT", 2)
    with fake_fleet(cluster := FakeCluster(["one"]), FleetScript()) as fleet:
        for text in ("a", "b", "a", "c", "a", "b"):
            fleet.send(text)
    assert cluster.sent == ["a", "b", "c", "b"]


def test_the_same_question_is_judged_once(tmp_path: Path) -> None:
    """A driver that lost an answer asks again."""
    with fake_fleet(FakeCluster(["one"]), script(tmp_path)) as fleet:
        session = FleetEvaluator(place_on(fleet)).open(TASK)
        assert session.evaluate(KERNEL) == session.evaluate(KERNEL)
        assert len([note for note in notes_in(tmp_path) if note["what"] == "ended"]) == 1
        session.evaluate(KERNEL, final=True)
        assert len([note for note in notes_in(tmp_path) if note["what"] == "ended"]) == 2


def test_a_worker_that_dies_is_replaced_on_its_device_and_the_question_asked_again(tmp_path: Path) -> None:
    cluster = FakeCluster(["one", "two"], dies={"evaluate": ["worker", "worker"]})
    with fake_fleet(cluster, script(tmp_path)) as fleet:
        place = place_on(fleet)
        found = FleetEvaluator(place).open(TASK).evaluate(KERNEL)
    assert found.device == "host-one/cpu"
    assert len([note for note in notes_in(tmp_path) if note["what"] == "ended"]) == 1
    assert [node for node, method in cluster.asked if method == "evaluate"] == ["one"] * 3


def test_a_run_whose_node_is_lost_goes_on_on_a_device_that_is_alike() -> None:
    cluster = FakeCluster(
        ["one", "other", "two"], processors={"other": "faster"}, dies={"evaluate": ["node"]}
    )
    with fake_fleet(cluster, FleetScript()) as fleet:
        found = FleetEvaluator(place_on(fleet)).open(TASK).evaluate(KERNEL)
    assert found.device == "host-two/cpu"


def test_a_run_never_goes_on_on_another_kind_of_machine() -> None:
    cluster = FakeCluster(["one", "other"], processors={"other": "faster"}, dies={"evaluate": ["node"]})
    with fake_fleet(cluster, FleetScript(), NO_PATIENCE) as fleet:
        session = FleetEvaluator(place_on(fleet)).open(TASK)
        with pytest.raises(MachineError, match=r"host-one/cpu was lost, and .* no other device like it"):
            session.evaluate(KERNEL)
    assert ("other", "evaluate") not in cluster.asked


def test_a_run_that_lost_its_device_comes_before_those_that_wait() -> None:
    fleet = fake_fleet(FakeCluster(["one", "two"]), FleetScript())
    lost = place_on(fleet).machine
    fleet._moving.append(lost)
    assert fleet.take(anywhere) is None
    assert fleet.take(lost.is_like, is_moving=True) is not None


def test_a_candidate_that_ends_every_worker_ends_its_run_alone() -> None:
    cluster = FakeCluster(["one"], dies={"evaluate": ["worker"] * 3})
    with fake_fleet(cluster, FleetScript()) as fleet:
        place = place_on(fleet)
        session = FleetEvaluator(place).open(TASK)
        with pytest.raises(MachineError, match=f"candidate {KERNEL.id}: 3 workers in a row died of it"):
            session.evaluate(KERNEL)
        place.give_back()
        assert FleetEvaluator(place_on(fleet)).open(TASK).evaluate(Candidate(source="b")).is_verified


def test_nodes_that_are_lost_are_not_held_against_a_candidate() -> None:
    cluster = FakeCluster(["one", "two", "three", "four"], dies={"evaluate": ["node"] * 3})
    with fake_fleet(cluster, FleetScript()) as fleet:
        assert FleetEvaluator(place_on(fleet)).open(TASK).evaluate(KERNEL).is_verified
    assert len(cluster.nodes) == 1


def test_another_version_on_a_worker_is_refused_in_one_line() -> None:
    with (
        fake_fleet(FakeCluster(["one"], version="0.0.7"), FleetScript()) as fleet,
        pytest.raises(
            UserError, match=r"host-one/cpu runs Kernelwright 0\.0\.7, this is .*install the same"
        ) as refusal,
    ):
        fleet.look()
    assert len(str(refusal.value).splitlines()) == 1


def test_another_build_of_the_same_version_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.core.version import __version__

    with (
        fake_fleet(FakeCluster(["one"], version=__version__), FleetScript()) as fleet,
        pytest.raises(UserError, match="runs another build"),
    ):
        fleet.look()


def test_a_node_that_comes_with_another_version_takes_no_part_and_ends_nobody() -> None:
    cluster = FakeCluster(["one"])
    with fake_fleet(cluster, FleetScript()) as fleet:
        place = place_on(fleet)
        cluster.nodes.append("two")
        cluster.version = "0.0.7"
        fleet.look()
        assert FleetEvaluator(place).open(TASK).evaluate(KERNEL).is_verified
        assert fleet.take(anywhere) is None


def test_a_worker_that_comes_back_as_another_machine_is_left_for_one_that_is_alike() -> None:
    cluster = FakeCluster(["one", "two"], dies={"evaluate": ["worker"]})
    with fake_fleet(cluster, FleetScript(), NO_PATIENCE) as fleet:
        place = place_on(fleet)
        fleet.look()
        cluster.processors["one"] = "faster"
        assert FleetEvaluator(place).open(TASK).evaluate(KERNEL).device == "host-two/cpu"


def test_workers_that_swap_their_cards_swap_their_devices() -> None:
    """Of two GPUs whose workers died at once the cluster may give each the other one's."""
    cluster = FakeCluster(["one"], cards=("0", "1", "1", "0"))
    with fake_fleet(cluster, FleetScript()) as fleet:
        places = place_on(fleet), place_on(fleet)
        sessions = [FleetEvaluator(place).open(TASK) for place in places]
        for place in places:
            place.seat.forget_worker()
        judged = [session.evaluate(KERNEL).device for session in sessions]
    assert judged == ["host-one/cpu:0", "host-one/cpu:1"]


def test_another_card_is_another_device() -> None:
    cluster = FakeCluster(["one"], cards=("GPU-a", "GPU-b", "GPU-c"), dies={"evaluate": ["worker"]})
    with fake_fleet(cluster, FleetScript()) as fleet:
        session = FleetEvaluator(place_on(fleet)).open(TASK)
        assert session.evaluate(KERNEL).device == "host-one/cpu:GPU-c"


def test_what_a_worker_cannot_do_is_said_with_its_name() -> None:
    bad = order_for(FleetScript()).model_copy(update={"bring": "lab.no_such_module:bring"})
    with (
        Fleet(FakeCluster(["one"]), bad, "the cluster") as fleet,
        pytest.raises(MachineError, match="host-one/cpu: ModuleNotFoundError"),
    ):
        fleet.look()


def test_a_device_whose_workers_die_takes_no_part() -> None:
    cluster = FakeCluster(["one", "two"], dies={"hello": ["worker"] * 1, "begin": ["worker"] * 2})
    with fake_fleet(cluster, FleetScript()) as fleet:
        for _ in range(4):
            fleet.look()
        assert fleet.take(anywhere) is not None


def test_without_any_device_that_is_said() -> None:
    with (
        fake_fleet(FakeCluster([]), FleetScript(), NO_PATIENCE) as fleet,
        pytest.raises(MachineError, match="the fake cluster has no free device for cpu"),
    ):
        fleet.wait_for(anywhere)


def test_a_device_that_none_like_is_there_is_said_at_once() -> None:
    with (
        fake_fleet(FakeCluster(["one"]), FleetScript()) as fleet,
        pytest.raises(MachineError, match="never compared"),
    ):
        fleet.wait_for(lambda machine: False)


def test_what_fails_on_the_worker_is_the_same_error_here() -> None:
    with fake_fleet(FakeCluster(["one"]), FleetScript()) as fleet:
        evaluator = FleetEvaluator(place_on(fleet))
        with pytest.raises(TaskError, match="stub: not deterministic"):
            evaluator.open(TASK.model_copy(update={"source": "refuse me"}))
        with pytest.raises(TaskError, match=r"stub: cannot read somewhere\.pkl"):
            evaluator.open(TASK.model_copy(update={"artifact": "somewhere.pkl"}))


def test_a_live_module_is_judged_under_the_driver_s_name_for_it(tmp_path: Path) -> None:
    task = task_from_module(nn.Linear(4, 3), (torch.ones(2, 4),), name="live", folder=tmp_path / "here")
    script = FleetScript(modules=str(tmp_path / "there"))
    with fake_fleet(FakeCluster(["one"]), script) as fleet:
        found = FleetEvaluator(place_on(fleet)).open(task).evaluate(KERNEL)
    assert found.is_verified and found.task_id == task.id
    assert [path.name for path in (tmp_path / "there").iterdir()] == [Path(str(task.artifact)).name]


@pytest.mark.parametrize("chosen", [{"STEP": 8}, {}])
def test_the_device_closes_what_a_candidate_leaves_open(chosen: dict[str, int]) -> None:
    with fake_fleet(FakeCluster(["one"]), FleetScript(chosen=chosen)) as fleet:
        session = FleetEvaluator(place_on(fleet)).open(TASK)
        found = session.close_parameters(KERNEL, 2.5)
    if chosen:
        assert found is not None and (found.written, found.values, found.seconds) == (KERNEL.id, chosen, 2.5)
    else:
        assert found is None


def test_a_target_for_another_device_is_refused() -> None:
    candidate = Candidate.model_validate({"source": "a", "target": {"device": "cuda", "language": "triton"}})
    with fake_fleet(FakeCluster(["one"]), FleetScript()) as fleet:
        session = FleetEvaluator(place_on(fleet)).open(TASK)
        with pytest.raises(UserError, match="cuda/triton"):
            session.evaluate(candidate)


def test_no_answer_within_the_patience_costs_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "POLL_S", 0.0)
    monkeypatch.setattr("lab.fleet.FakeAnswer.wait", lambda self, seconds: seconds > 0)
    cluster = FakeCluster(["one"])
    fleet = fake_fleet(cluster, FleetScript(), NO_PATIENCE)
    seat = _ready(fleet, cluster, monkeypatch)
    with pytest.raises(MachineError, match="no answer of host-one/cpu in 0 s"):
        FleetPlace(fleet, seat, Machine()).ask("a question", "hello")
    assert seat.handle is None


def _ready(fleet: Fleet, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    with monkeypatch.context() as patch:
        patch.setattr("lab.fleet.FakeAnswer.wait", lambda self, seconds: True)
        return fleet.wait_for(anywhere)


def test_a_stopped_fleet_ends_every_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(["one"])
    with fake_fleet(cluster, FleetScript()) as fleet:
        place = place_on(fleet)
        monkeypatch.setattr("lab.fleet.FakeAnswer.wait", lambda self, seconds: False)
        fleet.stop()
        with pytest.raises(KeyboardInterrupt):
            place.ask("a question", "hello")
    assert cluster.is_closed
