"""What stands around an evaluator is put together in one order, whoever asks."""

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task
from kernelwright.runs.evaluators import Around, compose
from kernelwright.runs.recording import Recording
from kernelwright.targets.gpu.inspect.ahead import AotCheck
from kernelwright.targets.gpu.profilers.profile import Profiled
from kernelwright.testing.fake_run import FakeReferee

TASK = Task(name="t", source="reference")
A, B = Candidate(source="a"), Candidate(source="b")


class Looks:
    """A stub that counts what it is asked: refuses ``b``."""

    def __init__(self) -> None:
        self.inspected: list[str] = []
        self.profiled: list[str] = []

    def inspect(self, task: Task, candidate: Candidate) -> AotCheck:
        self.inspected.append(candidate.source)
        return AotCheck(problem="refused" if candidate.source == "b" else "", note="inspected")

    def profile(self, task: Task, candidate: Candidate) -> Profiled:
        self.profiled.append(candidate.source)
        return Profiled(note="profiled")


def test_with_nothing_around_the_evaluator_is_asked() -> None:
    referee = FakeReferee({"a": 2.0})
    with compose(referee, Around()).open(TASK) as session:
        assert session.evaluate(A).geomean_speedup() == pytest.approx(2.0)


def test_all_of_it_asks_the_recording_first_then_compilers_then_the_referee_quickly() -> None:
    referee, looks, recording = FakeReferee({"a": 2.0}), Looks(), Recording()
    around = Around(is_quick=True, inspect=looks.inspect, profile=looks.profile, recording=recording)
    with compose(referee, around).open(TASK) as session:
        assert session.evaluate(A).is_verified
        assert session.evaluate(B).status is Status.COMPILE_ERROR
        assert not session.evaluate(A, final=True).is_final
    with compose(referee, around).open(TASK) as again:
        assert again.evaluate(A).is_verified
        assert again.evaluate(B).status is Status.COMPILE_ERROR
    assert referee.asked == [("a", False)], "refused, recorded and quick verdicts cost the referee nothing"
    assert set(looks.inspected) == {"a", "b"} and looks.profiled == ["a"]


def test_without_anybody_who_measures_what_is_not_recorded_is_an_error() -> None:
    judge = compose(None, Around(recording=Recording(), is_measured=False))
    with judge.open(TASK) as session, pytest.raises(UserError, match="no measurement"):
        session.evaluate(A)


def test_nobody_at_all_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="there must be a recording"):
        compose(None, Around())
