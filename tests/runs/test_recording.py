"""Recorded measurements: served instead of the referee's, kept in a file, and clearly missed."""

from pathlib import Path

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CaptureError, UserError
from kernelwright.core.evaluation import Status
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.methods.kernelskill import KERNELSKILL, KernelSkillPolicy
from kernelwright.runs.loop import Crew, RunOutcome, Tools, start_run
from kernelwright.runs.recording import (
    FILE_NAME,
    RecordedEvaluation,
    RecordedEvaluator,
    RecordedMachine,
    Recording,
    open_recording,
    prepare_as_recorded,
    read_recording,
    recording_of,
)
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import PEAKS, FakeReferee, ScriptedTeam, fake_evaluation, fake_prepare

TASK = Task(name="t", source="reference")
SPEC = RunSpec(task=TASK, recipe="kernelskill", is_cold=True)
VERDICTS: dict[str, float | Status] = {"a": 1.2, "a>x": Status.CRASHED, "a>x+fix": 1.4, "a>y": 1.6}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def play(store: Store, evaluator: RecordedEvaluator) -> RunOutcome:
    tools = Tools(
        store=store,
        referee=evaluator,
        assemble=lambda meter, tape: Crew(ScriptedTeam(["a"], ["x", "y"]).team()),
        policy=KernelSkillPolicy(rounds=4),
        pipelines=KERNELSKILL.pipelines,
        cache_dir=Path("unused"),
        prepare=fake_prepare,
    )
    return start_run(SPEC, tools)


def test_a_second_run_takes_every_measurement_from_the_first(store: Store) -> None:
    recording, referee = Recording(), FakeReferee(VERDICTS)
    first = play(store, RecordedEvaluator(referee, recording))
    n_asked = len(referee.asked)
    second = play(store, RecordedEvaluator(referee, recording))
    assert len(referee.asked) == n_asked == len(recording)
    assert second.evaluation == first.evaluation
    assert second.spent.evaluations == first.spent.evaluations > 0


def test_without_serving_everything_is_measured_anew_and_the_first_figure_stays(store: Store) -> None:
    recording = Recording()
    play(store, RecordedEvaluator(FakeReferee(VERDICTS), recording, is_served=False))
    slower = FakeReferee({**VERDICTS, "a>y": 1.5})
    outcome = play(store, RecordedEvaluator(slower, recording, is_served=False))
    assert outcome.evaluation is not None and outcome.evaluation.geomean_speedup() == pytest.approx(1.5)
    kept = recording.find(TASK.id, Candidate(source="a>y").id, is_final=True)
    assert kept is not None and kept.geomean_speedup() == pytest.approx(1.6)


def test_a_file_replays_to_the_same_outcome_with_nobody_to_measure(store: Store, tmp_path: Path) -> None:
    first = play(store, RecordedEvaluator(FakeReferee(VERDICTS), open_recording(tmp_path / FILE_NAME)))
    again = play(store, RecordedEvaluator(None, read_recording(tmp_path)))
    assert (again.winner, again.evaluation, again.reason) == (first.winner, first.evaluation, first.reason)


def test_a_stores_runs_are_a_recording(store: Store) -> None:
    first = play(store, RecordedEvaluator(FakeReferee(VERDICTS), Recording()))
    again = play(store, RecordedEvaluator(None, recording_of(store)))
    assert again.evaluation == first.evaluation
    assert len(recording_of(store, "another experiment")) == 0


def test_a_missing_measurement_is_one_clear_line() -> None:
    recording = Recording([RecordedEvaluation(evaluation=fake_evaluation(Candidate(source="a"), TASK, 2.0))])
    with RecordedEvaluator(None, recording).open(TASK) as session:
        assert session.evaluate(Candidate(source="a")).is_verified
        with pytest.raises(UserError, match=r"no measurement of candidate .* .final.* on task 't'; replay"):
            session.evaluate(Candidate(source="a"), final=True)
        with pytest.raises(UserError, match="no measurement of the task itself on task 't'"):
            _ = session.baseline_ms


def test_the_referee_is_asked_to_admit_a_task_only_when_it_has_to_measure(store: Store) -> None:
    recording, referee = Recording(), FakeReferee(VERDICTS)
    play(store, RecordedEvaluator(referee, recording))
    idle = FakeReferee(VERDICTS)
    play(store, RecordedEvaluator(idle, recording))
    assert idle.task is None


def test_a_line_cut_short_is_left_out_and_removed_before_more_is_added(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    one, two = (
        RecordedEvaluation(evaluation=fake_evaluation(Candidate(source=s), TASK, 2.0)) for s in ("a", "b")
    )
    path.write_text(one.model_dump_json() + "\n" + two.model_dump_json()[:40], encoding="utf-8")
    assert len(read_recording(path)) == 1
    open_recording(path).add(two)
    assert len(read_recording(path)) == 2


def test_opening_adds_what_is_known_already(tmp_path: Path) -> None:
    known = Recording([RecordedEvaluation(evaluation=fake_evaluation(Candidate(source="a"), TASK, 2.0))])
    assert len(open_recording(tmp_path / "new" / "r.jsonl", known)) == 1
    assert len(read_recording(tmp_path / "new" / "r.jsonl")) == 1


@pytest.mark.parametrize("text", ["nonsense\n", '{"kind": "evaluation"}\n', "\x00\n"])
def test_a_file_that_is_no_recording_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"r.jsonl:1: not an entry"):
        read_recording(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no recording can be read there"):
        read_recording(tmp_path / "none.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the recording"):
        open_recording(tmp_path / "file" / "r.jsonl")


def test_floors_of_a_replay_are_those_of_the_recorded_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    open_recording(path).add(RecordedMachine(machine=Machine(cores=2, peaks=PEAKS)))
    machine = read_recording(path).machine
    assert machine is not None
    # The reference here cannot be captured: the machine's figures are all that is asked for.
    monkeypatch.setattr("kernelwright.runs.prepare.capture_task", _refuse)
    problem, why = prepare_as_recorded(machine)(SPEC, Path("unused"))
    assert (problem.peaks, problem.machine.cores, why) == (PEAKS, 2, "not here")


def _refuse(*arguments: object) -> None:
    raise CaptureError("not here")
