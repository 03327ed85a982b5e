"""Few tasks are open at a time, and a referee that failed is replaced."""

import pytest
from tests.remote.conftest import StubReferee

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError
from kernelwright.core.task import Task
from kernelwright.remote.sessions import Sessions


def task(name: str, source: str = "x") -> Task:
    return Task(name=name, source=f"{source} {name}")


def evaluate(sessions: Sessions, task: Task, source: str = "k") -> None:
    sessions.evaluate(task, Candidate(source=source), final=False, floors={}, baselines=("eager",))


def test_the_task_used_longest_ago_is_closed_first(stub: StubReferee) -> None:
    sessions = Sessions(lambda: stub, max_open=2)
    a, b, c = task("a"), task("b"), task("c")
    for each in (a, b, a, c):
        evaluate(sessions, each)
    assert sessions.open_tasks == (a.id, c.id)
    assert stub.is_open == {"a": True, "b": False, "c": True}
    evaluate(sessions, b)
    assert stub.opened == ["a", "b", "c", "b"]
    sessions.close()
    assert set(stub.is_open.values()) == {False}
    assert (stub.n_started, stub.n_ended) == (1, 1)


def test_a_task_that_needs_the_machine_to_itself_gets_it(stub: StubReferee) -> None:
    sessions = Sessions(lambda: stub, max_open=3)
    sessions.admit(task("a"))
    large = task("large", "alone")
    assert sessions.admit(large) == {"default": 10.0}
    assert sessions.open_tasks == (large.id,)


def test_a_refused_task_leaves_the_referee_as_it_is(stub: StubReferee) -> None:
    sessions = Sessions(lambda: stub)
    for _ in range(2):
        with pytest.raises(TaskError, match="not deterministic"):
            sessions.admit(task("dice", "refuse me"))
    assert (stub.n_started, stub.n_ended, sessions.open_tasks) == (1, 0, ())


@pytest.mark.parametrize(("source", "kind"), [("machine", MachineError), ("defect", ZeroDivisionError)])
def test_after_a_failure_there_is_a_new_referee(
    stub: StubReferee, source: str, kind: type[Exception]
) -> None:
    sessions = Sessions(lambda: stub)
    with pytest.raises(kind):
        evaluate(sessions, task("a"), source)
    assert (stub.is_open["a"], stub.n_ended) == (False, 1)
    evaluate(sessions, task("a"))
    assert stub.n_started == 2


def test_a_reference_that_died_is_opened_anew(stub: StubReferee) -> None:
    sessions = Sessions(lambda: stub)
    with pytest.raises(TaskError):
        evaluate(sessions, task("a"), "task")
    evaluate(sessions, task("a"))
    assert (stub.opened, stub.n_started) == (["a", "a"], 1)
