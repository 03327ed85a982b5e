"""Jobs side by side over a cluster of this process."""

import threading
from collections.abc import Callable

import pytest
from lab.fleet import FakeAnswer, FakeCluster, FakeWorker, FleetScript, fake_fleet

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError
from kernelwright.core.task import Task
from kernelwright.remote.fleet import session as sessions
from kernelwright.remote.fleet.fleet import FleetPatience
from kernelwright.remote.fleet.lanes import FleetJob, Lanes
from kernelwright.remote.fleet.session import FleetEvaluator

NODES = ["n1", "n2", "n3"]
NO_PATIENCE = FleetPatience(lost_s=0.0, busy_s=0.0, answer_s=0.0)


def job(name: str, done: list[str], then: Callable[[], object] = lambda: None) -> FleetJob:
    def play(evaluator: FleetEvaluator) -> None:
        with evaluator.open(Task(name=name, source=name)) as session:
            session.evaluate(Candidate(source=name))
        then()
        done.append(name)

    return FleetJob(name, play)


def test_every_job_is_done_once_and_devices_are_used_side_by_side() -> None:
    cluster, done = FakeCluster(NODES), list[str]()
    names = [f"job {number}" for number in range(9)]
    with fake_fleet(cluster, FleetScript()) as fleet:
        assert Lanes(fleet).run([job(name, done) for name in names]) == []
    assert sorted(done) == names
    assert {node for node, method in cluster.asked if method == "evaluate"} == set(NODES)


def test_one_job_at_a_time_works_the_others_wait_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    at_work: list[int] = []
    most: list[int] = []

    def work() -> None:
        at_work.append(1)
        most.append(len(at_work))
        at_work.pop()

    with fake_fleet(FakeCluster(NODES), FleetScript()) as fleet:
        Lanes(fleet).run([job(f"{n}", [], work) for n in range(6)])
    assert most == [1] * 6


def test_waits_for_workers_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three evaluations ends only when all three have begun."""
    together = threading.Barrier(3, timeout=30.0)

    def wait(self: object, seconds: float) -> bool:
        if seconds > 0 and threading.current_thread() is not threading.main_thread():
            together.wait()
        return True

    monkeypatch.setattr("lab.fleet.FakeAnswer.wait", wait)
    with fake_fleet(FakeCluster(NODES), FleetScript()) as fleet:
        Lanes(fleet).run([job(f"{n}", []) for n in range(3)])
    assert not together.broken


def test_lost_nodes_lose_no_job() -> None:
    cluster, done = FakeCluster(NODES, dies={"evaluate": ["node", "", "worker"]}), list[str]()
    names = [f"job {number}" for number in range(8)]
    with fake_fleet(cluster, FleetScript()) as fleet:
        Lanes(fleet).run([job(name, done) for name in names])
    assert sorted(done) == names
    assert len(cluster.nodes) == 2


def test_what_breaks_one_job_ends_all_and_is_raised() -> None:
    def broken() -> None:
        raise ValueError("broken")

    cluster = FakeCluster(NODES)
    with (
        pytest.raises(ValueError, match="broken"),
        fake_fleet(cluster, FleetScript()) as fleet,
    ):
        Lanes(fleet).run([job("bad", [], broken), *(job(f"{n}", []) for n in range(3))])
    assert cluster.is_closed


def test_an_interruption_reaches_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """No evaluation ends here; Ctrl-C comes once both jobs wait."""
    begun: list[str] = []
    ended: list[str] = []
    real = FakeWorker.ask

    def ask(self: FakeWorker, method: str, *values: object) -> FakeAnswer:
        return Never("") if method == "evaluate" else real(self, method, *values)

    class Never(FakeAnswer):
        def wait(self, seconds: float) -> bool:
            begun.append("")
            return False

    def play(evaluator: FleetEvaluator) -> None:
        try:
            evaluator.open(Task(name="t", source="t")).evaluate(Candidate(source="a"))
        except KeyboardInterrupt:
            ended.append("interrupted")
            raise

    def may_begin() -> bool:
        if len(begun) > 1:
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(FakeWorker, "ask", ask)
    monkeypatch.setattr(sessions, "POLL_S", 0.001)
    with (
        pytest.raises(KeyboardInterrupt),
        fake_fleet(FakeCluster(["n1", "n2"]), FleetScript()) as fleet,
    ):
        Lanes(fleet).run([FleetJob(f"{n}", play) for n in range(3)], may_begin)
    assert ended == ["interrupted"] * 2


def test_jobs_that_may_not_begin_are_left() -> None:
    done: list[str] = []
    jobs = [job(name, done) for name in "abcd"]
    with fake_fleet(FakeCluster(["n1"]), FleetScript()) as fleet:
        left = Lanes(fleet).run(jobs, lambda: len(done) < 2)
    assert done == ["a", "b"] and [one.name for one in left] == ["c", "d"]


def test_a_job_goes_to_the_kind_of_machine_that_it_was_begun_on() -> None:
    cluster = FakeCluster(["n1", "n2"], processors={"n2": "faster"})
    where: list[str | None] = []

    def play(evaluator: FleetEvaluator) -> None:
        where.append(evaluator.machine().processor)

    jobs = [FleetJob(f"{n}", play, lambda machine: machine.processor == "faster") for n in range(3)]
    with fake_fleet(cluster, FleetScript()) as fleet:
        Lanes(fleet).run(jobs)
    assert where == ["faster"] * 3


def test_a_job_that_no_machine_fits_is_said_after_all_others_are_done() -> None:
    done: list[str] = []
    lost = FleetJob("begun elsewhere", lambda evaluator: None, lambda machine: False)
    with (
        fake_fleet(FakeCluster(["n1"]), FleetScript()) as fleet,
        pytest.raises(MachineError, match=r"begun elsewhere: no device of .* is like the one"),
    ):
        Lanes(fleet).run([lost, job("a", done), job("b", done)])
    assert done == ["a", "b"]


def test_without_devices_the_wait_has_an_end() -> None:
    with (
        fake_fleet(FakeCluster([]), FleetScript(), NO_PATIENCE) as fleet,
        pytest.raises(MachineError, match="no free device"),
    ):
        Lanes(fleet).run([job("a", [])])
