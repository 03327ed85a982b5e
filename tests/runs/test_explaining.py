"""A verdict of wrong numbers says where, stays what it was, and is explained once."""

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.task import Task
from kernelwright.runs.evaluators import Around, compose
from kernelwright.runs.recording import Recording
from kernelwright.testing.fake_run import FakeReferee

TASK = Task(name="t", source="reference")
WRONG, CRASHED, RIGHT = (Candidate(source=name) for name in ("wrong", "crashed", "right"))
REFEREE = FakeReferee({"wrong": Status.INCORRECT_NUMERICS, "crashed": Status.CRASHED, "right": 2.0})


def test_only_wrong_numbers_of_the_search_are_explained_and_recorded_with_the_verdict() -> None:
    asked: list[str] = []

    def explain(task: Task, candidate: Candidate, found: Evaluation) -> tuple[str, ...]:
        asked.append(candidate.source)
        return ("3 of 9 elements wrong", "- axis 0 (9): indices 6 to 8")

    recording = Recording()
    with compose(REFEREE, Around(explain=explain, recording=recording)).open(TASK) as session:
        first = session.evaluate(WRONG)
        plain = REFEREE.evaluate(WRONG)
        assert first.log == "3 of 9 elements wrong\n- axis 0 (9): indices 6 to 8"
        kept = {"log": "", "phases_s": plain.phases_s}
        assert first.model_copy(update=kept) == plain.model_copy(update={"log": ""})
        assert session.evaluate(WRONG).log == first.log
        assert session.evaluate(CRASHED).log == REFEREE.evaluate(CRASHED).log
        assert session.evaluate(RIGHT).is_verified and not session.evaluate(WRONG, final=True).log
    assert asked == ["wrong"]


def test_what_cannot_be_explained_stays_as_it_is() -> None:
    with compose(REFEREE, Around(explain=lambda task, candidate, found: ())).open(TASK) as session:
        assert session.evaluate(WRONG) == REFEREE.evaluate(WRONG)
