"""What a candidate leaves open is closed before it is judged, once, and the record says how."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.test_run import SPEC, Killed, events, tools

from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters, ParameterResponse, ValueResponse
from kernelwright.core.events import Event, ParametersClosed
from kernelwright.core.open_parameters import closed, open_parameters
from kernelwright.core.plan import ParamValue
from kernelwright.core.task import Task
from kernelwright.report.story import Story
from kernelwright.runs.closing import ClosingEvaluator, seconds_for, tuning_seconds
from kernelwright.runs.loop import Tools, continue_run, create_run, start_run
from kernelwright.runs.recording import RecordedEvaluator, recording_of
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

OPEN = 'TUNE = {"TILE": [16, 32, 64]}\n'
FAST = closed(OPEN, {"TILE": 64})


class ScriptedCloser:
    """Stub: always takes the last value of each parameter, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __call__(self, task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
        self.asked.append(seconds)
        values: Mapping[str, ParamValue] = {
            name: found[-1] for name, found in open_parameters(candidate.source).items()
        }
        known = ValueResponse(value=64, low=0.4, high=0.6, n_points=1)
        return ClosedParameters(
            written=candidate.id,
            values=dict(values),
            low=0.4,
            high=0.6,
            n_points=3,
            n_possible=3,
            seconds=7.0,
            responses=(ParameterResponse(name="TILE", values=(known,)),),
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def closing_tools(store: Store, referee: FakeReferee, close: ScriptedCloser, **more: object) -> Tools:
    own = tools(store, referee, ScriptedTeam([OPEN], []), **more)
    return replace(own, referee=ClosingEvaluator(referee, close))


def test_only_the_closed_candidate_reaches_the_referee(store: Store) -> None:
    referee, close = FakeReferee({FAST: 2.0}), ScriptedCloser()
    outcome = start_run(SPEC, closing_tools(store, referee, close))
    assert outcome.winner is not None and outcome.winner.source == FAST
    assert {source for source, _ in referee.asked} == {FAST} and len(close.asked) == 1
    (event,) = [e for e in events(store, outcome.run_id) if isinstance(e, ParametersClosed)]
    assert event.candidate == outcome.winner.id and event.closing.seconds == 7.0
    story = Story()
    for one in events(store, outcome.run_id):
        story.add(one)
    told = [note.text for step in story.steps for note in step.noted]
    assert "3 of 3 points in 7 s; chosen: TILE=64: [0.40, 0.60] of the defaults' time" in told


def test_where_nobody_can_time_points_the_defaults_stand(store: Store) -> None:
    referee = FakeReferee({})
    start_run(SPEC, tools(store, referee, ScriptedTeam([OPEN], [])))
    assert referee.asked[0][0] == closed(OPEN, {})
    (event,) = [e for e in events(store, next(store.iter_runs()).run_id) if isinstance(e, ParametersClosed)]
    assert event.closing.problem == "nothing can be timed here"


@pytest.mark.parametrize("source", ["a", "TUNE = 3\n", 'TUNE = {"TILE": [16]}\n'])
def test_a_candidate_that_leaves_nothing_open_stays_as_it_is(store: Store, source: str) -> None:
    referee, close = FakeReferee({}), ScriptedCloser()
    own = tools(store, referee, ScriptedTeam([source], []))
    start_run(SPEC, replace(own, referee=ClosingEvaluator(referee, close)))
    assert referee.asked[0][0] == source and not close.asked


def test_a_resumed_run_does_not_time_points_again(store: Store) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, ParametersClosed):
            raise Killed

    close, referee = ScriptedCloser(), FakeReferee({FAST: 2.0})
    run_id = create_run(SPEC, store)
    with pytest.raises(Killed):
        continue_run(run_id, closing_tools(store, referee, close, on_event=kill))
    outcome = continue_run(run_id, closing_tools(store, referee, close))
    assert outcome.winner is not None and outcome.winner.source == FAST and len(close.asked) == 1
    assert outcome.spent.seconds >= 7.0, "the seconds before the interruption count"
    assert sum(isinstance(event, ParametersClosed) for event in events(store, run_id)) == 1


def test_a_recorded_run_closes_the_same_and_times_nothing(store: Store, tmp_path: Path) -> None:
    close = ScriptedCloser()
    start_run(SPEC, closing_tools(store, FakeReferee({FAST: 2.0}), close))
    again = tools(open_store(tmp_path / "again.db"), FakeReferee({}), ScriptedTeam([OPEN], []))
    outcome = start_run(SPEC, replace(again, referee=RecordedEvaluator(None, recording_of(store))))
    assert outcome.winner is not None and outcome.winner.source == FAST and len(close.asked) == 1


def test_closing_keeps_to_its_share_of_the_time(store: Store) -> None:
    assert seconds_for(None) == 20.0 and seconds_for(100.0) == 10.0 and seconds_for(10_000.0) == 20.0
    close = ScriptedCloser()
    spec = SPEC.model_copy(update={"budget": Budget(evaluations=9, seconds=100)})
    start_run(spec, closing_tools(store, FakeReferee({}), close))
    assert 9.0 < close.asked[0] <= 10.0
    close = ScriptedCloser()
    spec = SPEC.model_copy(update={"budget": Budget(evaluations=9, seconds=20)})
    start_run(spec, closing_tools(store, FakeReferee({}), close))
    assert not close.asked, "too little time to start the process that times"


def test_tuning_follows_what_is_left_of_the_run() -> None:
    assert tuning_seconds(None, None, 3.0) == tuning_seconds(None, 29, 3.0) == 25.0
    assert tuning_seconds(40.0, None, 0.0) == pytest.approx(14.0)  # of a budget of seconds
    assert tuning_seconds(1e4, None, 0.0) == 60.0
    assert tuning_seconds(None, 5, 4.0) == pytest.approx(12.0)  # of a budget of evaluations
    assert tuning_seconds(None, 5, 0.1) == 5.0
