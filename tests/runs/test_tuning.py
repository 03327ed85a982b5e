"""A run tunes all schedules of its fastest candidate at once: charged, recorded, found again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_run import SPEC, events, tools

from kernelwright.agents.llm.tape import Tape
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import ParametersClosed, StepStarted
from kernelwright.core.plan import Move, Plan
from kernelwright.core.task import Task
from kernelwright.methods.kernelwright import KERNELWRIGHT, KernelwrightPolicy
from kernelwright.runs.closing import ClosingEvaluator
from kernelwright.runs.loop import Crew, Tools, start_run
from kernelwright.runs.view import Attempt, RunView
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

TUNED = Plan(moves=(Move(skill="tuned", region="r", params={"unroll": 8}),))


class ScriptedTuner:
    """Stub: always finds the same plan, or that nothing is faster."""

    def __init__(self, plan: Plan | None = TUNED) -> None:
        self.plan, self.asked = plan, 0

    def __call__(self, task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
        self.asked += 1
        values = {} if self.plan is None else {"r.unroll": 8}
        return ClosedParameters(
            written=candidate.id, values=dict(values), n_points=40, seconds=6.0, plan=self.plan
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def tuning_tools(store: Store, referee: FakeReferee, tuner: ScriptedTuner, *, can_tune: bool = True) -> Tools:
    own = tools(store, referee, ScriptedTeam(["a"], ["x"]), can_tune=can_tune)
    judge = ClosingEvaluator(referee, tuner)
    policy = KernelwrightPolicy(rounds=4)
    return replace(own, referee=judge, policy=policy, pipelines=KERNELWRIGHT.pipelines)


def modes(store: Store, run_id: str) -> list[str]:
    return [event.mode for event in events(store, run_id) if isinstance(event, StepStarted)]


def test_the_fastest_seed_is_tuned_and_the_referee_judges_what_came_of_it(store: Store) -> None:
    referee, tuner = FakeReferee({"a": 1.5, "a>tuned": 3.0}), ScriptedTuner()
    outcome = start_run(SPEC, tuning_tools(store, referee, tuner))
    assert outcome.winner is not None and outcome.winner.source == "a>tuned"
    assert modes(store, outcome.run_id)[:2] == ["seed", "tune"]
    (told,) = [e for e in events(store, outcome.run_id) if isinstance(e, ParametersClosed)]
    assert told.closing.n_points == 40 and told.closing.seconds == 6.0 and tuner.asked == 1


def test_where_nothing_is_faster_the_candidate_is_tuned_once_and_the_search_goes_on(store: Store) -> None:
    referee, tuner = FakeReferee({"a": 1.5, "a>x": 1.1}), ScriptedTuner(plan=None)
    outcome = start_run(SPEC, tuning_tools(store, referee, tuner))
    assert tuner.asked == 1 and "optimize" in modes(store, outcome.run_id)
    assert {source for source, _ in referee.asked} >= {"a", "a>x"}


@pytest.mark.parametrize(("can_tune", "evaluations"), [(False, 32), (True, 4)])
def test_nothing_is_tuned_where_nobody_can_or_the_budget_is_small(
    store: Store, can_tune: bool, evaluations: int
) -> None:
    tuner = ScriptedTuner()
    spec = SPEC.model_copy(update={"budget": Budget(evaluations=evaluations)})
    made = tuning_tools(store, FakeReferee({"a": 1.5, "a>x": 1.6}), tuner, can_tune=can_tune)
    outcome = start_run(spec, made)
    assert not tuner.asked and "tune" not in modes(store, outcome.run_id)


def test_the_last_leader_is_tuned_before_the_search_ends() -> None:
    attempts = tuple(
        Attempt(step, mode, name, None, True, speedup, 0.3)
        for step, (mode, name, speedup) in enumerate(
            [("seed", "a", 1.2), ("tune", "b", 1.5), ("optimize", "c", 2.0)]
        )
    )
    view = RunView(attempts=attempts, base="c", exhausted=frozenset("abc"), tunable=frozenset("c"))
    assert KernelwrightPolicy().select(view).base == "c" and KernelwrightPolicy().select(view).mode == "tune"
    assert KernelwrightPolicy().select(replace(view, tunable=frozenset())).mode == "stop"


def test_what_tuning_may_make_the_fastest_is_tuned_and_what_is_far_behind_is_not() -> None:
    attempts = tuple(
        Attempt(step, "seed", name, None, True, speedup, 0.3)
        for step, (name, speedup) in enumerate([("fast", 2.0), ("near", 1.7), ("far", 1.1)])
    )
    view = RunView(attempts=attempts, base="fast", tunable=frozenset({"near", "far"}))
    assert (
        KernelwrightPolicy().select(view).mode == "tune" and KernelwrightPolicy().select(view).base == "near"
    )
    assert KernelwrightPolicy().select(replace(view, tunable=frozenset({"far"}))).mode == "optimize"


def test_what_was_tuned_is_gone_on_from_and_what_it_was_tuned_from_is_not(store: Store) -> None:
    referee = FakeReferee({"a": 1.5, "a>tuned": 3.0, "a>tuned>x": 3.5, "a>x": 1.6})
    start_run(SPEC, tuning_tools(store, referee, ScriptedTuner()))
    judged = {source for source, _ in referee.asked}
    assert "a>tuned>x" in judged and "a>x" not in judged


def test_what_tuning_came_to_is_judged_however_long_tuning_took(store: Store) -> None:
    class LongTuner(ScriptedTuner):
        def __call__(self, task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
            return super().__call__(task, candidate, seconds).model_copy(update={"seconds": 1e6})

    class SlowReferee(FakeReferee):
        def evaluate(self, *args: Any, **kwargs: Any) -> Evaluation:
            return super().evaluate(*args, **kwargs).model_copy(update={"phases_s": {"verify": 3.0}})

    referee = SlowReferee({"a": 1.5, "a>tuned": 3.0})
    spec = SPEC.model_copy(update={"budget": Budget(evaluations=8)})
    outcome = start_run(spec, tuning_tools(store, referee, LongTuner()))
    assert outcome.winner is not None and outcome.winner.source == "a>tuned"
    assert outcome.spent.evaluations == 8


def test_nothing_is_tuned_of_what_a_model_writes(store: Store) -> None:
    tuner = ScriptedTuner()
    made = tuning_tools(store, FakeReferee({"a": 1.5, "a>x": 1.6}), tuner)

    def with_model(meter: Meter, tape: Tape) -> Crew:
        crew = made.assemble(meter, tape)
        return replace(crew, team=replace(crew.team, calls={"coder": 1}))

    outcome = start_run(SPEC, replace(made, assemble=with_model))
    assert not tuner.asked and "tune" not in modes(store, outcome.run_id)


def test_what_could_not_be_tuned_costs_no_evaluation(store: Store) -> None:
    class Refusing(ScriptedTuner):
        def __call__(self, task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
            return ClosedParameters(written=candidate.id, values={}, seconds=1e6, problem="nothing is open")

    class SlowReferee(FakeReferee):
        def evaluate(self, *args: Any, **kwargs: Any) -> Evaluation:
            return super().evaluate(*args, **kwargs).model_copy(update={"phases_s": {"verify": 3.0}})

    outcome = start_run(SPEC, tuning_tools(store, SlowReferee({"a": 1.5, "a>x": 1.6}), Refusing()))
    assert outcome.winner is not None and outcome.winner.source == "a>x"
