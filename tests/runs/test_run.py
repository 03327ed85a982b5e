"""The loop with scripted verdicts: what is evaluated, what is remembered, how a run ends and resumes."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.budget import Budget
from kernelwright.core.evaluation import Status
from kernelwright.core.events import CandidateEvaluated, Event, MoveFailed, RunFinished
from kernelwright.core.run import Outcome, RunSpec
from kernelwright.core.run import RunState as StoredState
from kernelwright.core.task import Task
from kernelwright.methods.kernelskill import KERNELSKILL, KernelSkillPolicy
from kernelwright.runs.loop import Crew, Tools, continue_run, start_run
from kernelwright.store import sqlstore
from kernelwright.store.base import Store
from kernelwright.store.sqllearned import insert_outcomes
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_prepare

SPEC = RunSpec(task=Task(name="t", source="reference"), recipe="kernelskill")


class Killed(BaseException):
    """Stands for kill -9: nothing may catch it."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def tools(store: Store, referee: FakeReferee, team: ScriptedTeam, **more: object) -> Tools:
    return Tools(
        store=store,
        referee=referee,
        assemble=lambda meter, tape: Crew(team.team()),
        policy=KernelSkillPolicy(rounds=4),
        pipelines=KERNELSKILL.pipelines,
        cache_dir=Path("unused"),
        prepare=fake_prepare,
        **more,  # type: ignore[arg-type]
    )


def events(store: Store, run_id: str) -> list[Event]:
    return [stored.event for stored in store.iter_events(run_id)]


def test_the_fastest_verified_candidate_wins_and_is_measured_again(store: Store) -> None:
    referee = FakeReferee({"a": 1.0, "b": 1.5, "b>x": 2.5, "b>x>x": 2.4, "b>x>y": 2.0})
    outcome = start_run(SPEC, tools(store, referee, ScriptedTeam(["a", "b"], ["x", "y"])))
    assert outcome.winner is not None and outcome.winner.source == "b>x"
    assert referee.asked[-1] == ("b>x", True)
    assert store.get_run(outcome.run_id).state is StoredState.FINISHED


def test_nothing_faster_leaves_the_module_unchanged(store: Store) -> None:
    outcome = start_run(SPEC, tools(store, FakeReferee({"a": 0.9}), ScriptedTeam(["a"], [])))
    assert outcome.winner is None
    assert "every move that applies" in outcome.reason


def test_a_failed_move_is_not_made_again_on_the_same_base(store: Store) -> None:
    referee = FakeReferee({"a": 1.2, "a>y": 1.3})
    team = ScriptedTeam(["a"], ["x", "y"], unliftable=["x"])
    outcome = start_run(SPEC, tools(store, referee, team))
    failed = [e for e in events(store, outcome.run_id) if isinstance(e, MoveFailed)]
    assert [e.move.skill for e in failed if e.base == failed[0].base] == ["x"]
    assert len(referee.asked) == len(set(referee.asked))


def test_an_idea_is_credited_with_what_its_repair_chain_ends_in(store: Store) -> None:
    referee = FakeReferee({"a": 1.0, "a>x": Status.CRASHED, "a>x+fix": 1.2})
    start_run(SPEC, tools(store, referee, ScriptedTeam(["a"], ["x"])))
    outcomes = [outcome for _, outcome in store.iter_outcomes()]
    first = next(o for o in outcomes if o.skill == "x")
    assert first.verified and first.log_speedup == pytest.approx(0.182, abs=1e-3)


def test_outcomes_keep_the_values_that_a_move_had(store: Store) -> None:
    class ValuedTeam(ScriptedTeam):
        def plan(self, situation: Situation) -> Choice | None:
            choice = super().plan(situation)
            valued = choice and choice.move.model_copy(update={"params": {"unroll": 8}})
            return choice and replace(choice, move=valued)

    referee = FakeReferee({"a": 1.0, "a>x": 1.2})
    start_run(SPEC, tools(store, referee, ValuedTeam(["a"], ["x"])))
    assert [outcome.params for _, outcome in store.iter_outcomes()][:1] == [{"unroll": 8}]


def test_the_budget_ends_a_run_and_keeps_its_best(store: Store) -> None:
    spec = SPEC.model_copy(update={"budget": Budget(evaluations=2)})
    referee = FakeReferee({"a": 1.2, "a>x": 1.4, "a>y": 1.3})
    outcome = start_run(spec, tools(store, referee, ScriptedTeam(["a"], ["x", "y"])))
    assert outcome.reason == "the budget of evaluations is used up"
    assert outcome.winner is not None and outcome.winner.source == "a>x"


@pytest.mark.parametrize("killed_after", range(1, 6))
def test_a_killed_run_resumes_without_repeating_a_finished_evaluation(
    store: Store, killed_after: int
) -> None:
    verdicts: dict[str, float | Status] = {
        "a": 1.0, "a>x": Status.CRASHED, "a>x+fix": 1.1, "a>y": 1.6, "a>y>x": 1.7, "a>y>y": 1.2,
    }  # fmt: skip
    team = ScriptedTeam(["a"], ["x", "y"])
    seen: list[str] = []

    def kill(event: Event) -> None:
        if isinstance(event, CandidateEvaluated):
            seen.append(event.candidate)
            if len(seen) == killed_after:
                raise Killed

    first, second = FakeReferee(verdicts), FakeReferee(verdicts)
    with pytest.raises(Killed):
        start_run(SPEC, tools(store, first, team, on_event=kill))
    run_id = next(store.iter_runs()).run_id
    outcome = continue_run(run_id, tools(store, second, team))
    assert not set(first.asked) & set(second.asked)
    evaluated = [e for e in events(store, run_id) if isinstance(e, CandidateEvaluated)]
    assert len(evaluated) == len(first.asked) + len(second.asked)
    assert outcome.winner is not None and outcome.winner.source == "a>y>x"


def test_a_finished_run_is_returned_as_it_ended(store: Store) -> None:
    team = ScriptedTeam(["a"], [])
    outcome = start_run(SPEC, tools(store, FakeReferee({"a": 1.5}), team))
    again = FakeReferee({})
    assert continue_run(outcome.run_id, tools(store, again, team)) == outcome
    assert again.asked == []
    assert sum(isinstance(e, RunFinished) for e in events(store, outcome.run_id)) == 1


def test_a_run_killed_while_closing_leaves_all_or_nothing_and_is_closed_by_a_resume(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts: dict[str, float | Status] = {"a": 1.2, "a>x": 1.4, "a>y": 1.3, "a>x>x": 1.1, "a>x>y": 1.0}
    team = ScriptedTeam(["a"], ["x", "y"])

    def stop(connection: Connection, outcomes: Sequence[Outcome]) -> int:
        insert_outcomes(connection, outcomes[:1])
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(sqlstore, "insert_outcomes", stop)
        start_run(SPEC, tools(store, FakeReferee(verdicts), team))
    run_id = next(store.iter_runs()).run_id
    assert not any(isinstance(event, RunFinished) for event in events(store, run_id))
    assert list(store.iter_outcomes()) == []
    again = FakeReferee({})
    outcome = continue_run(run_id, tools(store, again, team))
    assert again.asked == [] and outcome.winner is not None
    left = [o.move_key for _, o in store.iter_outcomes()]
    assert left and len(left) == len(set(left))
    assert [plan.best_source for _, plan in store.iter_plans()] == [outcome.winner.id]


def test_every_event_is_told_to_the_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kernelwright.runs.journal")
    verdicts: dict[str, float | Status] = {"a": 1.2, "a>x": Status.COMPILE_ERROR}
    outcome = start_run(SPEC, tools(store, FakeReferee(verdicts), ScriptedTeam(["a"], ["x"])))
    told = [(record.message, record.__dict__["fields"]) for record in caplog.records]
    assert [kind for kind, _ in told] == [event.kind for event in events(store, outcome.run_id)]
    assert all(fields["run"] == outcome.run_id for _, fields in told)
    verdict_words = [fields["status"] for kind, fields in told if kind == "candidate_evaluated"]
    assert "verified" in verdict_words and "compile_error" in verdict_words


def test_a_run_killed_after_closing_is_finished_by_a_resume(store: Store) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, RunFinished):
            raise Killed

    team = ScriptedTeam(["a"], ["x"])
    referee = FakeReferee({"a": 1.2, "a>x": 1.4})
    with pytest.raises(Killed):
        start_run(SPEC, tools(store, referee, team, on_event=kill))
    left = list(store.iter_outcomes())
    run_id = next(store.iter_runs()).run_id
    assert store.get_run(run_id).state is StoredState.RUNNING
    continue_run(run_id, tools(store, FakeReferee({}), team))
    assert store.get_run(run_id).state is StoredState.FINISHED
    assert list(store.iter_outcomes()) == left != []
