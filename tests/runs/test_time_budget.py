"""A budget of seconds counts the final measurement too: a share of it is kept for that, and one is owed."""

from pathlib import Path

import pytest

from kernelwright.core.budget import Budget, Meter
from kernelwright.core.errors import BudgetUsedUp
from kernelwright.methods.kernelskill import KERNELSKILL, KernelSkillPolicy
from kernelwright.report.story import tell
from kernelwright.report.verdict import run_verdict
from kernelwright.runs import loop
from kernelwright.runs.loop import FINAL_SHARE, NO_TIME, RunOutcome, start_run
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

from .playing import events, spec_of, tools_of


class Clock:
    """A stub of the time module: stands still but for what evaluations take."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class SlowReferee(FakeReferee):
    """A stub that takes so many seconds by the clock for every evaluation."""

    def __init__(self, clock: Clock, seconds: float, verdicts: dict[str, float]) -> None:
        super().__init__(verdicts)
        self._clock, self._seconds = clock, seconds

    def evaluate(self, candidate, **how):  # type: ignore[no-untyped-def]
        self._clock.now += self._seconds
        return super().evaluate(candidate, **how)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    return clock


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def play(
    store: Store, clock: Clock, *, evaluation_s: float, budget_s: float, first: float = 1.2
) -> RunOutcome:
    verdicts = {"a": first, "a>x": 1.5, "a>x>x": 1.6, "a>y": 1.3, "a>x>y": 1.4}
    team = ScriptedTeam(["a"], ["x", "y"]).team()
    referee = SlowReferee(clock, evaluation_s, verdicts)
    tools = tools_of(KERNELSKILL, KernelSkillPolicy(rounds=20), store, referee, team)
    return start_run(spec_of(KERNELSKILL, budget=Budget(seconds=budget_s)), tools)


def test_reserved_seconds_end_the_search_and_are_there_for_the_final() -> None:
    clock = Clock()
    meter = Meter(Budget(seconds=10), clock.monotonic, reserved_s=3)
    clock.now = 6.9
    meter.require()
    clock.now = 7.0
    assert meter.has_time() and meter.spent.seconds == 7.0
    with pytest.raises(BudgetUsedUp, match="seconds"):
        meter.require()
    clock.now = 10.0
    assert not meter.has_time()


def test_the_search_leaves_a_share_of_the_seconds_to_the_final(store: Store, clock: Clock) -> None:
    outcome = play(store, clock, evaluation_s=1.0, budget_s=4.0)
    assert outcome.spent.evaluations == 3 and FINAL_SHARE * 4.0 > 1.0
    assert outcome.reason == "the budget of seconds is used up"
    assert outcome.winner is not None and outcome.evaluation is not None and outcome.evaluation.is_final
    assert clock.now <= 4.0


def test_no_evaluation_is_begun_that_could_leave_no_time_for_the_final(store: Store, clock: Clock) -> None:
    outcome = play(store, clock, evaluation_s=6.0, budget_s=10.0)  # a second one would end after 12
    assert outcome.reason == "the budget of seconds is used up" and outcome.spent.evaluations == 1
    assert outcome.evaluation is not None and outcome.evaluation.is_final and outcome.winner is not None


def test_where_nothing_faster_is_found_the_search_goes_on(store: Store, clock: Clock) -> None:
    team = ScriptedTeam(["a"], ["x", "y"]).team()
    referee = SlowReferee(clock, 6.0, {"a": 0.9, "a>x": 0.8, "a>y": 0.7})
    tools = tools_of(KERNELSKILL, KernelSkillPolicy(rounds=20), store, referee, team)
    outcome = start_run(spec_of(KERNELSKILL, budget=Budget(seconds=10.0)), tools)
    assert outcome.spent.evaluations == 2 and outcome.winner is None


@pytest.mark.parametrize("evaluation_s", [4.0, 12.0])
def test_a_run_ends_within_its_seconds_one_evaluation_and_one_final(
    store: Store, clock: Clock, evaluation_s: float
) -> None:
    outcome = play(store, clock, evaluation_s=evaluation_s, budget_s=9.0)
    assert clock.now <= 9.0 + 2 * evaluation_s
    assert outcome.winner is not None and outcome.evaluation is not None and outcome.evaluation.is_final


def test_no_final_is_owed_to_what_looked_no_faster_and_the_verdict_says_why(
    store: Store, clock: Clock
) -> None:
    outcome = play(store, clock, evaluation_s=12.0, budget_s=10.0, first=0.9)
    assert outcome.winner is None and outcome.evaluation is None and clock.now == 12.0
    assert outcome.reason.endswith(NO_TIME)
    verdict = run_verdict(tell(events(store, outcome.run_id)))
    assert verdict.headline == "Out of time before the final measurement: the module stays as it is"
    assert "Best so far: 0.90x" in verdict.lines[0]
